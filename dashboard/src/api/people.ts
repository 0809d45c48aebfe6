import { useQuery } from '@tanstack/react-query'
import { queries } from './queries.ts'

type Person = { id: string; name: string; active: boolean; kind: 'user' | 'bot' }

/** Whoever can own a key, once both lists are there. */
export function usePeople(): Person[] | undefined {
  const users = useQuery({ ...queries.users(), staleTime: 60_000 }).data
  const bots = useQuery({ ...queries.bots(), staleTime: 60_000 }).data
  if (!users || !bots) return undefined
  return [
    ...users.map(({ id, name, active }) => ({ id, name, active, kind: 'user' as const })),
    ...bots.map(({ id, name, active }) => ({ id, name, active, kind: 'bot' as const })),
  ]
}
