import { type EdgeRecord, kindOf, type RecordKey } from '../distribution/records.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Log } from '../kernel/log.ts'
import type { CellLimits } from './cell_limits.ts'
import { type Certificates, isOfEdges } from './certificates/certificates.ts'
import type { Position, RecordLog } from './disk/record_log.ts'
import type { Enforcement } from './enforcement.ts'
import { createArrivals } from './intake/arrivals.ts'
import type { Released } from './intake/intake.ts'
import { deletionsBy, heldBack, newest, type Plan, positionAfter } from './plan.ts'
import type { Preparation } from './preparation.ts'
import type { Refusals } from './refusals.ts'

const sweepEveryMs = 10 * 60 * 1_000
/** Too expensive for every second: the log may have hundreds of megabytes. */
const compactAgainMs = 30_000

type Parts = {
  log: Log
  clock: Clock
  recordLog: RecordLog
  preparation: Preparation
  enforcement: Enforcement
  certificates: Certificates
  cellLimits: Pick<CellLimits, 'note'>
  refusals: Refusals
}

/** Takes the node from one consistent state to the next: prepare, plan, log, proxy. Tracks how far the node has come. */
export function createStep(parts: Parts) {
  const { log, recordLog, preparation, enforcement, certificates, cellLimits, refusals } = parts
  const known = recordLog.records
  const withNewAddress = new Set<RecordKey>()
  /** Changed certificates and keys that are not applied to the proxy yet. */
  const pendingCertificates = new Set<RecordKey>()
  let position = recordLog.position()
  /** The position to report as in force, which stays before pending certificates and open connections. */
  let shown = position
  /** The position that the node would have without unfinished records. */
  let reached = position
  const arrivals = createArrivals(known)
  const unenforced = createUnenforced(parts)
  const upkeep = createUpkeep(parts)
  /** Unfinished before a step that failed to write the log. They are prepared, and stored nowhere else. */
  let notLogged: ReadonlyMap<RecordKey, EdgeRecord> = new Map()
  const [unfinishedSince, pendingSince, unclosedSince] = [createSince(), createSince(), createSince()]

  return {
    async run(arrived: readonly Released[], signal: AbortSignal): Promise<void> {
      // Later records would advance the node past those that it did not take in, and so report them as in force.
      const released = arrivals.differs() ? [] : arrived
      const { applied: before } = reached
      await unenforced.enforce(signal)
      notLogged = new Map([...notLogged, ...preparation.unfinished])
      const deletions = deletionsBy(released, known, notLogged)
      const arriving = newest([...released, { records: deletions, applied: 0 }], notLogged, known)
      const taken = arrivals.expect(released, arriving, before)
      // Drops the whole arrival: if a record is missing, its restriction would be missing too.
      if (!taken) return
      if (deletions.length > 0) log.warn({ records: deletions.length }, 'removing what the control plane no longer has')
      // Backends whose names resolve differently now, and policies with expired rules, change the proxy but not the log.
      const stale = [...withNewAddress]
      const again = [...stale, ...preparation.withoutRuleNames, ...preparation.expired()]
      const planned = enforcement.plan(await preparation.prepare(withKnown(arriving, again, known)))
      const arrivedAt = positionAfter(reached, released)
      const next = heldBack(position, arrivedAt, unfinishedSince.least(preparation.unfinished.keys(), before))
      const logged = planned.changes.map(({ record }) => record).filter((record) => arriving.get(record.key) === record)
      const isFirst = next.complete && !position.complete
      const isMoved = isFirst || next.applied !== position.applied || next.revision !== position.revision
      if (logged.length > 0 || isMoved || refusals.isBehind()) await append(recordLog, refusals, logged, next)
      taken()
      notLogged = new Map()
      unfinishedSince.forgetOthers(preparation.unfinished.keys())
      for (const key of stale) withNewAddress.delete(key)
      for (const { key } of logged) {
        if (isOfCertificates(key)) pendingCertificates.add(key)
        cellLimits.note(key)
      }
      unenforced.add(planned, next.complete, logged)
      await unenforced.enforce(signal)
      await noteEdges(certificates, logged)
      await certificates.apply(pendingCertificates)
      await enforcement.closeConnections()
      if (refusals.isBehind()) await append(recordLog, refusals, [], next)
      const unclosed = enforcement.unclosed()
      const since = Math.min(pendingSince.only(pendingCertificates, before), unclosedSince.only(unclosed, before))
      position = next
      reached = arrivedAt
      shown = { ...position, applied: Math.max(shown.applied, Math.min(position.applied, since)) }
      if (isFirst) log.info({ records: known.size, applied: next.applied }, 'first complete read: serving')
    },
    upkeep,
    /** The next step resolves and checks these backends, or all, again. */
    resolveAgain(keys: Iterable<RecordKey> = known.keys()): void {
      for (const key of keys) if (kindOf(key) === 'backend') withNewAddress.add(key)
    },
    /** True if work is left although nothing has arrived. */
    isDue: (): boolean =>
      notLogged.size > 0 || pendingCertificates.size > 0 || unenforced.isThere() || isPartDue(parts) || upkeep.isDue(),
    /** True if the next step can apply more certificates immediately. */
    hasPendingCertificates: (): boolean => pendingCertificates.size > 0,
    addPendingCertificates(keys: Iterable<RecordKey>): void {
      for (const key of keys) pendingCertificates.add(key)
    },
    position: () => shown,
    differs: arrivals.differs,
    isReadAgain: arrivals.isReadAgain,
  }
}

const isPartDue = ({ preparation, enforcement, refusals, certificates }: Parts): boolean =>
  preparation.unfinished.size > 0 ||
  preparation.withoutRuleNames.size > 0 ||
  preparation.expired().length > 0 ||
  enforcement.unclosed().size > 0 ||
  refusals.isBehind() ||
  certificates.isDue()

const isOfCertificates = (key: RecordKey): boolean => kindOf(key) === 'certificate' || kindOf(key) === 'recipient'

/**
 * An edge may have new names, and the operator's folder may already have a file for them, which is served together with
 * the edge.
 */
async function noteEdges(certificates: Certificates, logged: readonly EdgeRecord[]): Promise<void> {
  const kinds = new Set(logged.map(({ key }) => kindOf(key)))
  for (const { key } of logged) if (isOfEdges(key) || kindOf(key) === 'route') certificates.edgeChanged(key)
  if (kinds.has('https') || kinds.has('mutual_tls')) await certificates.lookForFiles()
}

/** The arriving records, and these of the known ones. */
function withKnown(
  arriving: ReadonlyMap<RecordKey, EdgeRecord>,
  again: readonly RecordKey[],
  known: ReadonlyMap<RecordKey, EdgeRecord>,
): EdgeRecord[] {
  const knownAgain = [...new Set(again)].filter((key) => !arriving.has(key)).map((key) => known.get(key))
  return [...arriving.values(), ...knownAgain.filter((record) => record !== undefined)]
}

/**
 * How far the node had come before the first record arrived that is not in force yet; infinite if there is none. The
 * records' own generations would be too high: several changes of one resource arrive as one record with the generation
 * of the last.
 */
function createSince() {
  const reachedBefore = new Map<string, number>()
  function least(waiting: Iterable<string>, reached: number): number {
    let lowest = Number.POSITIVE_INFINITY
    for (const key of waiting) {
      if (!reachedBefore.has(key)) reachedBefore.set(key, reached)
      lowest = Math.min(lowest, reachedBefore.get(key) ?? reached)
    }
    return lowest
  }
  function forgetOthers(waiting: ReadonlySet<string>): void {
    for (const key of reachedBefore.keys()) if (!waiting.has(key)) reachedBefore.delete(key)
  }
  return {
    /** Does not forget the other records: until the log is written, one of them may have to wait again. */
    least,
    forgetOthers: (waiting: Iterable<string>) => forgetOthers(new Set(waiting)),
    only(waiting: ReadonlySet<string>, reached: number): number {
      forgetOthers(waiting)
      return least(waiting, reached)
    },
  }
}

type UpkeepParts = Pick<Parts, 'log' | 'clock' | 'recordLog' | 'preparation'>

/** Maintenance between two steps. Nothing waits for it, and a failure loses nothing. */
function createUpkeep({ log, clock, recordLog, preparation }: UpkeepParts) {
  let sweepAt = clock() + sweepEveryMs
  let compactAt = 0
  return {
    async compactIfDue(): Promise<void> {
      if (!recordLog.isLong() || clock() < compactAt) return
      compactAt = clock() + compactAgainMs
      await recordLog
        .compact()
        .catch((err) => log.warn({ err }, 'cannot shorten records.log; it stays as it is, retrying in half a minute'))
    },
    /** Never runs during a step, which could prepare a policy from a file that this removes. */
    async sweepIfDue(): Promise<void> {
      if (clock() < sweepAt) return
      sweepAt = clock() + sweepEveryMs
      const files = await preparation.sweep().catch((err) => log.warn({ err }, 'cannot remove unused policy files'))
      if (files) log.info({ files }, 'removed unused policy files')
    },
    isDue: (): boolean => clock() >= sweepAt || (recordLog.isLong() && clock() >= compactAt),
  }
}

/** Includes all refusals up to this position, so that no later agent takes a refused record as in force. */
async function append(
  recordLog: RecordLog,
  refusals: Refusals,
  records: readonly EdgeRecord[],
  next: Position,
): Promise<void> {
  const { refusals: refused, done } = refusals.toLog()
  await recordLog.append(records, next, refused)
  done()
}

/**
 * Plans that are in the log but not in the proxy. They must reach the proxy before the next plan, because the log
 * already counts them as known.
 */
function createUnenforced({ enforcement, certificates }: Pick<Parts, 'enforcement' | 'certificates'>) {
  let waiting: { plan: Plan; ready: boolean } | undefined
  /** HTTPS edges whose mutual TLS settings the proxy lacks. It must have them before its maps change. */
  const edges = new Set<RecordKey>()
  return {
    add(plan: Plan, ready: boolean, logged: readonly EdgeRecord[]): void {
      waiting = { plan, ready }
      for (const { key } of logged) if (isOfEdges(key)) edges.add(key)
    },
    async enforce(signal: AbortSignal): Promise<void> {
      if (!waiting) return
      if (edges.size > 0) await certificates.applyEdges(edges)
      edges.clear()
      await enforcement.apply(waiting.plan, waiting.ready, signal)
      signal.throwIfAborted()
      waiting = undefined
    },
    isThere: (): boolean => waiting !== undefined,
  }
}
