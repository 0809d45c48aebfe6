import { kindOf, type RecordKey } from '../distribution/records.ts'
import type { Log } from '../kernel/log.ts'
import { createArrivals } from './arrivals.ts'
import type { Certificates } from './certificates.ts'
import type { Enforcement } from './enforcement.ts'
import type { Released } from './intake.ts'
import { deletionsBy, heldBack, newest, positionAfter } from './plan.ts'
import type { Preparation } from './preparation.ts'
import type { RecordLog } from './record_log.ts'

const sweepEveryMs = 10 * 60 * 1_000

type Parts<Entry> = {
  log: Log
  recordLog: RecordLog
  preparation: Preparation
  enforcement: Enforcement<Entry>
  certificates: Certificates
}

/** Takes the node from one consistent state to the next: prepare, plan, own log, proxy. Knows how far it has come. */
export function createStep<Entry>({ log, recordLog, preparation, enforcement, certificates }: Parts<Entry>) {
  const known = recordLog.records
  const resolvedAnew = new Set<RecordKey>()
  /** Certificates, and keys to them, that have changed and are not settled with the proxy yet. */
  const unsettled = new Set<RecordKey>()
  let position = recordLog.position()
  /** What is said to be in force: before certificates that are not. */
  let shown = position
  /** Where the node would be if nothing were unfinished. */
  let reached = position
  let sweepAt = Date.now() + sweepEveryMs
  const arrivals = createArrivals(known)

  function firstUnsettled(): number {
    let first = Number.POSITIVE_INFINITY
    for (const key of unsettled) first = Math.min(first, known.get(key)?.generation ?? first)
    return first
  }

  return {
    async run(released: readonly Released[], signal: AbortSignal): Promise<void> {
      const deletions = deletionsBy(released, known)
      const arriving = newest([...released, { records: deletions, applied: 0 }], preparation.unfinished, known)
      const arrived = arrivals.expect(released, arriving, reached.applied)
      // Not even the rest of it: without a record that is missing, what it narrows would be open.
      if (!arrived) return
      if (deletions.length > 0) log.warn({ records: deletions.length }, 'removing what the control plane no longer has')
      // Names that resolve differently now: nothing for the log, something for the proxy.
      const stale = [...resolvedAnew]
      const incomplete = [...stale, ...preparation.unnamed]
      const again = incomplete.filter((key) => !arriving.has(key)).map((key) => known.get(key))
      const records = [...arriving.values(), ...again.filter((record) => record !== undefined)]
      const planned = enforcement.plan(await preparation.prepare(records))
      const arrivedAt = positionAfter(reached, released)
      const next = heldBack(position, arrivedAt, preparation.unfinished)
      const logged = planned.changes.map(({ record }) => record).filter(({ key }) => arriving.has(key))
      const isFirst = next.complete && !position.complete
      if (logged.length > 0 || isFirst || next.applied !== position.applied || next.revision !== position.revision)
        await recordLog.append(logged, next)
      arrived()
      for (const key of stale) resolvedAnew.delete(key)
      for (const { key } of logged) if (isOfCertificates(key)) unsettled.add(key)
      await enforcement.apply(planned, next.complete, signal)
      await certificates.settle(unsettled)
      position = next
      reached = arrivedAt
      shown = { ...position, applied: Math.max(shown.applied, Math.min(position.applied, firstUnsettled() - 1)) }
      if (isFirst) log.info({ records: known.size, applied: next.applied }, 'first complete read: serving')
    },
    /** Never during a step, or a policy could be prepared from a file that is being removed. */
    async sweepIfDue(): Promise<void> {
      if (Date.now() < sweepAt) return
      sweepAt = Date.now() + sweepEveryMs
      const files = await preparation.sweep()
      if (files) log.info({ files }, 'removed unused policy files')
    },
    /** These backends, or all, are to be resolved and checked again with the next step. */
    resolveAgain(keys: Iterable<RecordKey> = known.keys()): void {
      for (const key of keys) if (kindOf(key) === 'backend') resolvedAnew.add(key)
    },
    /** Something is left to do although nothing has arrived. */
    isDue: (): boolean =>
      preparation.unfinished.size > 0 ||
      preparation.unnamed.size > 0 ||
      unsettled.size > 0 ||
      certificates.isDue() ||
      Date.now() >= sweepAt,
    /** Certificates are left that the next step can take on at once. */
    isUnsettled: (): boolean => unsettled.size > 0,
    /** These are still to be settled. */
    unsettle(keys: Iterable<RecordKey>): void {
      for (const key of keys) unsettled.add(key)
    },
    position: () => shown,
    differs: arrivals.differs,
    isReadAgain: arrivals.isReadAgain,
  }
}

const isOfCertificates = (key: RecordKey): boolean => kindOf(key) === 'certificate' || kindOf(key) === 'recipient'
