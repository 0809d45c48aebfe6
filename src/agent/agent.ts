import { type EdgeRecord, kindOf, type PolicyRecord, type RecordKey } from '../distribution/records.ts'
import { affectedTcpEdges } from './affected.ts'
import { type Announced, type BucketEntry, createIntake, type Released } from './intake.ts'
import { PieceMissing, type PolicyFiles } from './policy_files.ts'
import type { Refused } from './receiver.ts'
import type { Position, RecordLog } from './record_log.ts'
import { createRefusals } from './refusals.ts'
import type { Upstreams } from './upstreams/upstreams.ts'

/** Any proxy. `Entry` is its own representation of a record, opaque to the agent. */
export type Proxy<Entry> = {
  entriesOf: (key: string, value: unknown) => Entry[]
  /** Without these the proxy says that the node is not ready, instead of that there is nothing. */
  readyEntries: readonly Entry[]
  difference: (before: readonly Entry[], after: readonly Entry[]) => { set: Entry[]; del: Entry[] }
  /** In force when it resolves. */
  apply: (change: { set: readonly Entry[]; del: readonly Entry[] }, all: () => Iterable<Entry>) => Promise<void>
  /** Why an entry is not in force although it was applied, completing '<record> …': another record was first. */
  shadowed: (entry: Entry) => string | undefined
  closeSessions: (edgeIds: readonly string[]) => Promise<unknown>
}

type Log = Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>
type Parts = {
  log: Log
  recordLog: RecordLog
  policyFiles: PolicyFiles
  upstreams: Upstreams
  openConnections: 'keep' | 'close'
}

type Change<Entry> = { record: EdgeRecord; before: Entry[]; after: Entry[] }

const retryMs = 1_000
const sweepEveryMs = 10 * 60 * 1_000
const sayWaitingEveryMs = 10_000
const lookAtInterfacesEveryMs = 10_000

/**
 * Receive, plan, apply, report. What arrives is taken in as consistent wholes (intake.ts), one step after another: only
 * higher generations; files first, then the proxy, then the report. What cannot be applied is refused, and the last good
 * stays in force.
 */
export function createAgent<Entry>(
  { log, recordLog, policyFiles, upstreams, openConnections }: Parts,
  proxy: Proxy<Entry>,
  onApplied: () => void,
) {
  const entries = new Map<RecordKey, Entry[]>()
  const refusals = createRefusals()
  const arrived: Released[] = []
  /** Believed, but not to be had completely yet: a piece of a policy is missing. Nothing after it counts as applied. */
  const unfinished = new Map<RecordKey, EdgeRecord>()
  const resolvedAnew = new Set<RecordKey>()
  let position = recordLog.position()
  /** Where the node would be if nothing were unfinished. */
  let reached = position
  const intake = createIntake(position)
  /** A complete state is known: the proxy may say what there is and what not. */
  let isReady = position.complete
  let sweepAt = Date.now() + sweepEveryMs
  let working: Promise<void> | undefined
  let isStepDue = false
  let stopped = false

  const all = function* (): Generator<Entry> {
    if (isReady) yield* proxy.readyEntries
    for (const list of entries.values()) yield* list
  }

  function refuse({ key, generation, reason }: Refused): void {
    log.warn({ key, generation, reason }, 'record rejected; keeping the last valid one')
    refusals.add('record', { key, generation, reason })
    onApplied()
  }

  const upstreamRefusals = {
    refused({ key, generation }: EdgeRecord, reason: string, address: string): void {
      log.warn(
        { key, generation, reason, address },
        'upstream refused; its edges and routes have no backend on this node',
      )
      refusals.add('upstream', { key, generation, reason })
      onApplied()
    },
    accepted(key: RecordKey): void {
      log.info({ key }, 'upstream is no longer refused')
      refusals.withdraw(key)
      onApplied()
    },
  }

  /** The map entries of a record, with its policy file in place and its host name looked up. */
  async function plan(record: EdgeRecord): Promise<Entry[]> {
    const { key, value } = record
    if (value === null) {
      if (kindOf(key) === 'backend') upstreams.forget(key)
      return []
    }
    const kind = kindOf(key)
    if (kind === 'policy') {
      await policyFiles.prepare(value as PolicyRecord)
      return proxy.entriesOf(key, (value as PolicyRecord).hash)
    }
    if (kind === 'backend') return proxy.entriesOf(key, upstreams.resolve(record, upstreamRefusals))
    return proxy.entriesOf(key, value)
  }

  /** What becomes of these records. Those that cannot be applied are refused, or kept for another try. */
  async function planAll(records: Iterable<EdgeRecord>): Promise<Change<Entry>[]> {
    const changes: Change<Entry>[] = []
    const all = [...records]
    await upstreams.prepare(all, recordLog.records)
    for (const record of all) {
      try {
        changes.push({ record, before: entries.get(record.key) ?? [], after: await plan(record) })
        unfinished.delete(record.key)
      } catch (error) {
        if (error instanceof PieceMissing) unfinished.set(record.key, record)
        else {
          unfinished.delete(record.key)
          refuse({ key: record.key, generation: record.generation, reason: (error as Error).message })
        }
      }
    }
    return changes
  }

  async function step(released: Released[]): Promise<void> {
    const newest = new Map(unfinished)
    for (const record of released.flatMap(({ records }) => records)) {
      const known = newest.get(record.key) ?? recordLog.records.get(record.key)
      if (!known || record.generation > known.generation) newest.set(record.key, record)
    }
    const changes = await planAll(newest.values())
    const arrivedAt = positionAfter(released)
    const next = unfinished.size === 0 ? arrivedAt : heldBack(arrivedAt)
    const isFirst = next.complete && !position.complete
    const isNew =
      changes.length > 0 || isFirst || next.applied !== position.applied || next.revision !== position.revision
    if (isNew)
      await recordLog.append(
        changes.map(({ record }) => record),
        next,
      )
    // Names that resolve differently now: nothing for the log, something for the proxy.
    const stale = [...resolvedAnew].map((key) => recordLog.records.get(key)).filter((record) => record !== undefined)
    resolvedAnew.clear()
    isReady = next.complete
    await applyChanges([...changes, ...(await planAll(stale))], isFirst ? proxy.readyEntries : [])
    position = next
    reached = arrivedAt
    if (isFirst) log.info({ records: recordLog.records.size, applied: next.applied }, 'first complete read: serving')
    onApplied()
    if (Date.now() >= sweepAt) await sweep()
  }

  /** Runs as an agent step, so that no policy is prepared from a file that is being removed. */
  async function sweep(): Promise<void> {
    sweepAt = Date.now() + sweepEveryMs
    const policies = [...recordLog.records.values(), ...unfinished.values()]
      .filter(({ key, value }) => value !== null && kindOf(key) === 'policy')
      .map(({ value }) => value as PolicyRecord)
    const files = await policyFiles.sweep(policies)
    if (files) log.info({ files }, 'removed unused policy files')
  }

  function positionAfter(released: Released[]): Position {
    let { applied, revision, bucket, complete } = reached
    for (const batch of released) {
      applied = Math.max(applied, batch.applied)
      complete = true
      if (batch.read && batch.read.bucket !== bucket) ({ bucket, revision } = batch.read)
      else if (batch.read) revision = Math.max(revision, batch.read.revision)
    }
    return { applied, revision, bucket, complete }
  }

  /** After a restart what is unfinished must be read again, so the place in the bucket stays before it. */
  function heldBack({ applied, complete }: Position): Position {
    const first = Math.min(...[...unfinished.values()].map(({ generation }) => generation))
    return { ...position, complete, applied: Math.max(position.applied, Math.min(applied, first - 1)) }
  }

  async function applyChanges(changes: readonly Change<Entry>[], further: readonly Entry[]): Promise<void> {
    const set: Entry[] = [...further]
    const del: Entry[] = []
    const touched: EdgeRecord[] = []
    for (const { record, before, after } of changes) {
      const difference = proxy.difference(before, after)
      if (difference.set.length || difference.del.length) touched.push(record)
      for (const entry of difference.set) set.push(entry)
      for (const entry of difference.del) del.push(entry)
      if (after.length) entries.set(record.key, after)
      else entries.delete(record.key)
    }
    if (set.length || del.length) await insist(() => proxy.apply({ set, del }, all))
    for (const { record, after } of changes) {
      const reason = after.map(proxy.shadowed).find((found) => found !== undefined)
      if (reason) refuse({ key: record.key, generation: record.generation, reason })
    }
    if (openConnections === 'close') {
      const edges = affectedTcpEdges(touched, recordLog.records)
      if (edges.length)
        await proxy.closeSessions(edges).catch((err) => log.error({ err, edges }, 'cannot close open connections'))
    }
  }

  /** The proxy must end up with what is on disk. Until it does, nothing newer is taken in and the report stays behind. */
  async function insist(work: () => Promise<void>): Promise<void> {
    while (!stopped) {
      try {
        return await work()
      } catch (err) {
        log.error({ err }, 'HAProxy did not accept a change; retrying in a second')
        refuse({ key: 'proxy', generation: null, reason: (err as Error).message })
        await new Promise((resolve) => setTimeout(resolve, retryMs))
      }
    }
  }

  async function work(): Promise<void> {
    while ((arrived.length || isStepDue) && !stopped) {
      const released = arrived.splice(0)
      isStepDue = false
      try {
        await step(released)
      } catch (err) {
        // Such as a full disk. What arrived is taken in again: what is dropped here would be missing without a trace.
        arrived.unshift(...released)
        isStepDue = true
        log.error({ err }, 'an agent step failed; retrying in a second')
        await new Promise((resolve) => setTimeout(resolve, retryMs))
      }
    }
  }
  function kick(): void {
    isStepDue = true
    working ??= work().finally(() => {
      working = undefined
      if (isStepDue && !stopped) kick()
    })
  }
  function take(released: readonly Released[]): void {
    if (released.length === 0) return
    arrived.push(...released)
    kick()
  }
  const retry = setInterval(() => (unfinished.size || Date.now() >= sweepAt) && kick(), retryMs)
  const waiting = setInterval(() => isReady || sayWaiting(), sayWaitingEveryMs).unref()
  const interfaces = setInterval(() => {
    if (!upstreams.haveOwnAddressesChanged()) return
    log.info({}, 'the addresses of this machine changed; checking upstreams again')
    for (const key of recordLog.records.keys()) if (kindOf(key) === 'backend') resolvedAnew.add(key)
    kick()
  }, lookAtInterfacesEveryMs).unref()

  function sayWaiting(): void {
    const { staged, pending } = intake.state()
    log.warn(
      { read: staged, pending },
      pending === undefined
        ? 'not ready: waiting for the first complete read, and the NATS bucket is not reachable yet. HTTPS requests get 503, TCP connections are closed'
        : pending > 0
          ? 'not ready: reading the NATS bucket for the first time. HTTPS requests get 503, TCP connections are closed'
          : 'not ready: read the whole NATS bucket, but the control plane has not marked it complete. Check that it is running this version. HTTPS requests get 503, TCP connections are closed',
    )
  }

  return {
    /** Plans everything that is on disk, for the proxy to start with. */
    async load(): Promise<Iterable<Entry>> {
      for (const { record, after } of await planAll(recordLog.records.values()))
        if (after.length) entries.set(record.key, after)
      if (!isReady) sayWaiting()
      return all()
    },
    opened: intake.opened,
    announced: (batch: Announced) => take(intake.announced(batch)),
    entry: (entry: BucketEntry) => take(intake.entry(entry)),
    refused: refuse,
    /** A backend's name has another address now. */
    resolvedAnew(key: RecordKey): void {
      resolvedAnew.add(key)
      kick()
    },
    state: () => ({
      ready: position.complete,
      applied: position.applied,
      bucket: position.bucket,
      revision: position.revision,
      records: recordLog.records.size,
      unfinished: unfinished.size,
      /** Read, and held back until it is a consistent whole. */
      staged: intake.state().staged,
      pending: intake.state().pending,
      ...upstreams.state(),
      refusals: refusals.all(),
    }),
    async stop(): Promise<void> {
      stopped = true
      clearInterval(retry)
      clearInterval(waiting)
      clearInterval(interfaces)
      await working
    },
  }
}
