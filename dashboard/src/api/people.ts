import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { queries } from './queries.ts'

type Person = { id: string; name: string; active: boolean; kind: 'user' | 'bot' }

/** API keys that wait for someone to accept an invitation. */
export function useWaitingKeys(): ReadonlySet<string> {
  const { data } = useQuery({ ...queries.users(), staleTime: 60_000 })
  return useMemo(
    () =>
      new Set(
        data?.flatMap(({ invitation_state: state, invitation_api_key_id: id }) =>
          id && state === 'waiting' ? [id] : [],
        ),
      ),
    [data],
  )
}

/** Users and bots, which can own keys. Undefined until both lists were read; an unreadable list counts as empty. */
export function usePeople(): Person[] | undefined {
  const { data: users = [], isPending: usersPending } = useQuery({ ...queries.users(), staleTime: 60_000 })
  const { data: bots = [], isPending: botsPending } = useQuery({ ...queries.bots(), staleTime: 60_000 })
  if (usersPending || botsPending) return undefined
  return [
    ...users.map(({ id, name, active }) => ({ id, name, active, kind: 'user' as const })),
    ...bots.map(({ id, name, active }) => ({ id, name, active, kind: 'bot' as const })),
  ]
}
