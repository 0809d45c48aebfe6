import type { RecordKey } from '../distribution/records.ts'
import type { Log } from '../kernel/log.ts'
import type { Timing } from '../kernel/timing.ts'
import { createCellLimits } from './cell_limits.ts'
import { createCertificates } from './certificates/certificates.ts'
import type { NameServer } from './certificates/name_server.ts'
import type { NodeKey } from './disk/node_key.ts'
import type { PolicyFiles } from './disk/policy_files.ts'
import type { RecordLog } from './disk/record_log.ts'
import { createEnforcement, type Enforcer } from './enforcement.ts'
import type { Entry } from './haproxy/maps/entries.ts'
import { untilDigest } from './intake/arrivals.ts'
import { createDisagreement } from './intake/disagreement.ts'
import { type Announced, type BucketEntry, createIntake, type Released } from './intake/intake.ts'
import { createMissedDeletions, type HasRecord } from './intake/missed_deletions.ts'
import { livingIn } from './plan.ts'
import { createPreparation } from './preparation.ts'
import { createRefusals } from './refusals.ts'
import type { Health } from './reports/health.ts'
import { createStep } from './step.ts'
import type { Upstreams } from './upstreams/upstreams.ts'
import { createWorker } from './worker.ts'

type Parts = {
  log: Log
  timing: Timing
  recordLog: RecordLog
  policyFiles: PolicyFiles
  upstreams: Upstreams
  health: Health
  openConnections: 'keep' | 'close'
  node: string
  nodeKey: NodeKey
  names: NameServer
  hasRecord: HasRecord
  readAgain: () => void
  retryMs: number
}

const sayWaitingEveryMs = 10_000
const lookAtAddressesEveryMs = 10_000

/**
 * Receive, prepare, plan, apply, report. intake.ts groups arriving records into consistent wholes, and one step at a
 * time (worker.ts, step.ts) takes them in: it accepts only higher generations, then writes the files (preparation.ts),
 * changes the proxy (enforcement.ts) and reports. The node refuses a record that it cannot apply and keeps the last good
 * version in force.
 */
export function createAgent(parts: Parts, proxy: Enforcer, onApplied: () => void) {
  const { log, timing, recordLog, upstreams, policyFiles, node, nodeKey, names } = parts
  const known = recordLog.records
  const refusals = createRefusals({ log, clock: timing.now, logged: recordLog.refused, onChange: onApplied })
  const preparation = createPreparation({ log, clock: timing.now, known, policyFiles, upstreams }, refusals)
  const enforcement = createEnforcement({ ...parts, known, refusals }, proxy)
  const certificates = createCertificates({ clock: timing.elapsed, known, node, nodeKey, names, refusals })
  const cellLimits = createCellLimits(known)
  const step = createStep({
    ...{ log, clock: timing.elapsed, recordLog, preparation, enforcement, certificates, cellLimits, refusals },
  })
  const missedDeletions = createMissedDeletions(log, () => livingIn(known, preparation.unfinished), parts.hasRecord)
  const intake = createIntake(step.position())
  const disagreement = createDisagreement({ ...parts, intake, step, refusals, drop: () => worker.drop() })
  const worker = createWorker<Released>(parts, async (released, signal) => {
    for (const part of untilDigest(released)) await step.run(part, signal)
    if (step.differs()) return disagreement.resolve()
    missedDeletions.noteFloor(released)
    if (missedDeletions.isDue()) await missedDeletions.apply((deletions) => step.run(deletions, signal))
    onApplied()
    await step.upkeep.compactIfDue()
    await step.upkeep.sweepIfDue()
    if (step.hasPendingCertificates()) worker.soon()
  })

  function resolveAgain(keys?: Iterable<RecordKey>): void {
    step.resolveAgain(keys)
    worker.soon()
  }
  const timers = [
    timing.every(parts.retryMs, () => (step.isDue() || missedDeletions.isDue()) && worker.soon()),
    timing.every(parts.retryMs, disagreement.resolve),
    timing.every(sayWaitingEveryMs, () => step.position().complete || sayWaiting(log, intake.state())),
    timing.every(lookAtAddressesEveryMs, () => lookAtAddresses(parts, resolveAgain)),
  ]

  return {
    /** Plans every record on disk, as the proxy's initial state. */
    async load(): Promise<Iterable<Entry>> {
      const prepared = await preparation.prepare({ [Symbol.iterator]: () => known.values() })
      for (const key of known.keys()) cellLimits.note(key)
      if (!step.position().complete) sayWaiting(log, intake.state())
      return enforcement.load(prepared, step.position().complete)
    },
    /** Runs once the proxy is up, and makes the certificates that it serves match the records. */
    async loadCertificates(): Promise<void> {
      step.addPendingCertificates(await certificates.load())
      if (step.hasPendingCertificates()) worker.soon()
    },
    opened: disagreement.opened,
    announced: (batch: Announced) => worker.add(intake.announced(batch)),
    entry: (entry: BucketEntry) => worker.add(disagreement.entry(entry)),
    refused: refusals.refuse,
    isUpToDate: intake.isUpToDate,
    /** The host name of a backend resolves to other addresses now. */
    addressChanged: (key: RecordKey) => resolveAgain([key]),
    state() {
      const { complete, ...position } = step.position()
      const { staged, pending } = intake.state()
      return {
        ready: complete,
        ...position,
        records: known.size,
        unfinished: preparation.unfinished.size,
        /** Entries that were read but are not part of a consistent whole yet. */
        staged,
        pending,
        ...upstreams.state(),
        certificates: certificates.state(),
        shutLimits: cellLimits.shut(),
        refusals: refusals.latest(),
        refused: refusals.counts(),
      }
    },
    async stop(): Promise<void> {
      for (const stop of timers) stop()
      await worker.stop()
    },
  }
}

function lookAtAddresses({ log, upstreams }: Parts, resolveAgain: () => void): void {
  if (!upstreams.havePolicyAddressesChanged()) return
  log.info({}, 'the addresses of this machine or of the control plane changed; checking upstreams again')
  resolveAgain()
}

type Reading = { staged: number; pending: number | undefined; differs: boolean }

function sayWaiting(log: Log, { staged, pending, differs }: Reading): void {
  log.warn(
    { read: staged, pending },
    differs
      ? 'not ready: the records in the NATS bucket are not those that the control plane has signed for. It compares them when it hears of this. HTTPS requests get 503, TCP connections are closed'
      : pending === undefined
        ? 'not ready: waiting for the first complete read, and the NATS bucket is not reachable yet. HTTPS requests get 503, TCP connections are closed'
        : pending > 0
          ? 'not ready: reading the NATS bucket for the first time. HTTPS requests get 503, TCP connections are closed'
          : 'not ready: read the whole NATS bucket, but the control plane has not marked it complete. Check that it is running this version, and that no rollout is halted. HTTPS requests get 503, TCP connections are closed',
  )
}
