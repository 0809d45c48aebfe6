import { useQuery } from '@tanstack/react-query'
import type { Shapes } from '../api/client.ts'
import { queries } from '../api/queries.ts'

export type Open = { rollouts: Shapes['Rollout'][]; isUnread: boolean }

/** Rollouts that have not reached every node: halted ones first, waiting ones last. */
export function useOpenRollouts(): Open {
  const halted = useQuery(queries.haltedRollouts())
  const newest = useQuery(queries.rollouts())
  const first = halted.data?.rollouts ?? []
  // A rollout halted between the two reads may be in both.
  const known = new Set(first.map(({ id }) => id))
  const isWaiting = ({ state }: Shapes['Rollout']) => Number(state === 'waiting')
  const others = (newest.data?.rollouts ?? []).filter(({ id, state }) => state !== 'released' && !known.has(id))
  others.sort((a, b) => isWaiting(a) - isWaiting(b))
  return { rollouts: [...first, ...others], isUnread: halted.isError || newest.isError }
}
