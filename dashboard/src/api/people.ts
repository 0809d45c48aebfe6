import { useQuery } from '@tanstack/react-query'
import { queries } from './queries.ts'

type Person = { id: string; name: string; active: boolean; kind: 'user' | 'bot' }

/** Users and bots: those who can own a key. Undefined until both lists were read; a list that cannot be read counts as empty. */
export function usePeople(): Person[] | undefined {
  const { data: users = [], isPending: usersPending } = useQuery({ ...queries.users(), staleTime: 60_000 })
  const { data: bots = [], isPending: botsPending } = useQuery({ ...queries.bots(), staleTime: 60_000 })
  if (usersPending || botsPending) return undefined
  return [
    ...users.map(({ id, name, active }) => ({ id, name, active, kind: 'user' as const })),
    ...bots.map(({ id, name, active }) => ({ id, name, active, kind: 'bot' as const })),
  ]
}
