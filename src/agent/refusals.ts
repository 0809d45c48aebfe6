import type { Report } from '../distribution/channels.ts'

type Refusal = Report['refusals'][number]
type Kind = 'record' | 'upstream'

/** Of each kind: a report is sent every two seconds. */
const kept = 20

/**
 * The latest records and upstreams that the node refused, and why. Upstreams have a separate list, because anyone can
 * name a thousand that are not dialled, and none of them must push out a record that could not be applied.
 */
export function createRefusals() {
  const lists: Record<Kind, Refusal[]> = { record: [], upstream: [] }
  return {
    add(kind: Kind, refusal: Omit<Refusal, 'at'>): void {
      lists[kind].push({ ...refusal, at: new Date().toISOString() })
      if (lists[kind].length > kept) lists[kind].shift()
    },
    /** The upstream may be dialled after all. */
    withdraw(key: string): void {
      lists.upstream = lists.upstream.filter((refusal) => refusal.key !== key)
    },
    all: (): Refusal[] => [...lists.record, ...lists.upstream],
  }
}
