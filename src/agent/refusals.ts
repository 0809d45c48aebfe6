import type { Report } from '../distribution/channels.ts'
import type { EdgeRecord, RecordKey } from '../distribution/records.ts'
import type { Log } from '../kernel/log.ts'
import type { Refused } from './sealed_reader.ts'

type Refusal = Report['refusals'][number]

/** Of each kind: a report is sent every two seconds. */
const kept = 20

/**
 * The latest records and upstreams that the node refused, and why. Upstreams have a separate list, because anyone can
 * name a thousand that are not dialed, and none of them must push out a record that could not be applied.
 */
export function createRefusals(log: Log, onChange: () => void) {
  const records: Refusal[] = []
  let upstreams: Refusal[] = []
  const keep = (list: Refusal[], refusal: Refused) => {
    list.push({ ...refusal, at: new Date().toISOString() })
    if (list.length > kept) list.shift()
    onChange()
  }
  return {
    refuse({ key, generation, reason }: Refused): void {
      log.warn({ key, generation, reason }, 'record rejected; keeping the last valid one')
      keep(records, { key, generation, reason })
    },
    upstreams: {
      refused({ key, generation }: EdgeRecord, reason: string, address: string): void {
        log.warn(
          { key, generation, reason, address },
          'upstream refused; its edges and routes have no backend on this node',
        )
        keep(upstreams, { key, generation, reason })
      },
      /** The upstream may be dialed after all. */
      accepted(key: RecordKey): void {
        log.info({ key }, 'upstream is no longer refused')
        upstreams = upstreams.filter((refusal) => refusal.key !== key)
        onChange()
      },
    },
    all: (): Refusal[] => [...records, ...upstreams],
  }
}
export type Refusals = ReturnType<typeof createRefusals>
