import { maxRefusedGenerations, type RecordRefusal } from '../distribution/channels.ts'
import type { EdgeRecord, RecordKey } from '../distribution/records.ts'
import { isRecordKey } from '../distribution/validate.ts'
import { type Clock, rfc3339 } from '../kernel/clock.ts'
import type { RefusedCounts } from '../kernel/edge/edge_nodes.ts'
import type { Log } from '../kernel/log.ts'
import { plainText } from '../kernel/text.ts'
import type { LoggedRefusal } from './disk/record_lines.ts'
import type { Refused } from './intake/sealed_reader.ts'

/** Limits the refusals of each kind with a reason in a report, which is sent every two seconds. */
const shownOfEach = 20
const maxReasonCharacters = 400
const maxKeyCharacters = 200

type Parts = {
  log: Log
  clock: Clock
  /** Refusals in this node's log: what an earlier agent refused is not in force either. */
  logged: ReadonlyMap<RecordKey, RecordRefusal>
  onChange: () => void
}

/**
 * What this node received but does not enforce, and why, until a replacement arrives. The node reports no generation as
 * applied while one of its records is here. Upstreams are separate, because a tenant can name a thousand that are not
 * dialed, which must not hide a record that could not be applied. They are not logged: the agent checks them again at
 * every start.
 */
export function createRefusals({ log, clock, logged, onChange }: Parts) {
  const records = new Map<RecordKey, RecordRefusal>(logged)
  const upstreams = new Map<RecordKey, RecordRefusal>()
  /** Refusals without a record: rejections by the proxy, and unreadable messages. */
  let others: RecordRefusal[] = []
  const pending = new Set<RecordKey>()
  let counts: RefusedCounts | undefined

  function changed(): void {
    counts = undefined
    onChange()
  }
  /** Moves the key to the end, so that the latest refusal is last. */
  function put(list: Map<RecordKey, RecordRefusal>, key: RecordKey, refusal: RecordRefusal): void {
    list.delete(key)
    list.set(key, refusal)
    changed()
  }

  return {
    records: records as ReadonlyMap<RecordKey, RecordRefusal>,
    refuse(refused: Refused): void {
      const { key, generation, reason } = refused
      log.warn({ key, generation, reason }, 'record rejected; keeping the last valid one')
      const refusal = refusalOf(refused, clock())
      if (isRecordKey(key) && generation !== null) {
        const before = records.get(key)
        if (before?.generation !== generation || before.reason !== refusal.reason) pending.add(key)
        put(records, key, refusal)
        return
      }
      const isSame = (other: RecordRefusal) => other.key === refusal.key && other.reason === refusal.reason
      others = [...others.filter((other) => !isSame(other)), refusal].slice(-shownOfEach)
      changed()
    },
    /** This generation of the record is now in force. */
    accept(key: RecordKey, generation: number): void {
      const refused = records.get(key)
      if (!refused || (refused.generation ?? 0) > generation) return
      records.delete(key)
      pending.add(key)
      changed()
    },
    upstreams: createUpstreamRefusals({ log, clock }, upstreams, put, changed),
    /** Refusals that the log lacks. Call `done` after logging them. */
    toLog(): { refusals: LoggedRefusal[]; done: () => void } {
      const keys = [...pending]
      const now = new Map(keys.map((key) => [key, records.get(key)]))
      return {
        refusals: keys.map((key) => now.get(key) ?? { key, reason: null }),
        done() {
          for (const [key, refusal] of now) if (records.get(key) === refusal) pending.delete(key)
        },
      }
    },
    isBehind: (): boolean => pending.size > 0,
    /** The latest refusals of each kind. */
    latest: (): RecordRefusal[] => [
      ...[...records.values(), ...others].slice(-shownOfEach),
      ...[...upstreams.values()].slice(-shownOfEach),
    ],
    counts(): RefusedCounts {
      counts ??= countsOf([...records.values(), ...upstreams.values()])
      return counts
    },
  }
}
type Upstreams = Map<RecordKey, RecordRefusal>
function createUpstreamRefusals(
  { log, clock }: Pick<Parts, 'log' | 'clock'>,
  upstreams: Upstreams,
  put: (list: Upstreams, key: RecordKey, refusal: RecordRefusal) => void,
  changed: () => void,
) {
  return {
    refused({ key, generation }: EdgeRecord, reason: string, address: string): void {
      log.warn(
        { key, generation, reason, address },
        'upstream refused; its edges and routes have no backend on this node',
      )
      put(upstreams, key, refusalOf({ key, generation, reason }, clock()))
    },
    /** The upstream may be dialed again. */
    accepted(key: RecordKey): void {
      log.info({ key }, 'upstream is no longer refused')
      if (upstreams.delete(key)) changed()
    },
    forget(key: RecordKey): void {
      if (upstreams.delete(key)) changed()
    },
  }
}

const refusalOf = ({ key, generation, reason }: Refused, now: number): RecordRefusal => ({
  key: plainText(key, maxKeyCharacters),
  generation,
  reason: plainText(reason, maxReasonCharacters),
  at: rfc3339(now),
})

export type Refusals = ReturnType<typeof createRefusals>

function countsOf(refusals: readonly RecordRefusal[]): RefusedCounts {
  const distinct = new Set(refusals.map(({ generation }) => generation).filter((generation) => generation !== null))
  const generations = [...distinct].sort((a, b) => a - b)
  return {
    records: refusals.length,
    lowest: generations[0] ?? null,
    generations: generations.slice(-maxRefusedGenerations),
  }
}
