import type { Report } from '../distribution/channels.ts'
import {
  type BackendRecord,
  type EdgeRecord,
  kindOf,
  type PolicyRecord,
  type RecordKey,
} from '../distribution/records.ts'
import { affectedTcpEdges } from './affected.ts'
import { PieceMissing, type PolicyFiles } from './policy_files.ts'
import type { Received, Refused } from './receiver.ts'
import type { Position, RecordLog } from './record_log.ts'
import type { Resolver } from './resolver.ts'

/** A proxy, whichever it is. `Entry` is what it is told of a record; nobody else looks inside. */
export type Proxy<Entry> = {
  entriesOf: (key: string, value: unknown) => Entry[]
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
  resolver: Resolver
  openConnections: 'keep' | 'close'
}

type Change<Entry> = { record: EdgeRecord; before: Entry[]; after: Entry[] }

const refusalsKept = 20
const retryMs = 1_000
const sweepEveryMs = 10 * 60 * 1_000

/**
 * Receive, plan, apply, report. What arrives is taken in one step after another: only higher generations; files first, then
 * the proxy, then the report. What cannot be applied is refused, and the last good stays in force.
 */
export function createAgent<Entry>(
  { log, recordLog, policyFiles, resolver, openConnections }: Parts,
  proxy: Proxy<Entry>,
  onApplied: () => void,
) {
  const entries = new Map<RecordKey, Entry[]>()
  const refusals: Report['refusals'] = []
  const arrived: Received[] = []
  /** Believed, but not to be had completely yet: a piece of a policy is missing. Nothing after it counts as applied. */
  const unfinished = new Map<RecordKey, EdgeRecord>()
  const resolvedAnew = new Set<RecordKey>()
  let position = recordLog.position()
  /** Where the node would be if nothing were unfinished. */
  let reached = position
  let sweepAt = Date.now() + sweepEveryMs
  let working: Promise<void> | undefined
  let stopped = false

  const all = function* (): Generator<Entry> {
    for (const list of entries.values()) yield* list
  }

  function refuse({ key, generation, reason }: Refused): void {
    log.warn({ key, generation, reason }, 'a record is not in force here: the last good one stays')
    refusals.push({ key, generation, reason, at: new Date().toISOString() })
    if (refusals.length > refusalsKept) refusals.shift()
    onApplied()
  }

  /** The map entries of a record, with its policy file in place and its host name looked up. */
  async function plan(record: EdgeRecord): Promise<Entry[]> {
    const { key, value } = record
    if (value === null) {
      resolver.forget(key)
      return []
    }
    const kind = kindOf(key)
    if (kind === 'policy') {
      await policyFiles.prepare(value as PolicyRecord)
      return proxy.entriesOf(key, (value as PolicyRecord).hash)
    }
    if (kind === 'backend') return proxy.entriesOf(key, resolver.resolve(key, value as BackendRecord))
    return proxy.entriesOf(key, value)
  }

  /** What becomes of these records. Those that cannot be applied are refused, or kept for another try. */
  async function planAll(records: Iterable<EdgeRecord>): Promise<Change<Entry>[]> {
    const changes: Change<Entry>[] = []
    const all = [...records]
    await resolver.prepare(
      all.filter(({ key, value }) => value && kindOf(key) === 'backend').map(({ value }) => value as BackendRecord),
    )
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

  async function step(received: Received[]): Promise<void> {
    const newest = new Map(unfinished)
    for (const record of received.flatMap(({ records }) => records)) {
      const known = newest.get(record.key) ?? recordLog.records.get(record.key)
      if (!known || record.generation > known.generation) newest.set(record.key, record)
    }
    const changes = await planAll(newest.values())
    const arrivedAt = positionAfter(received)
    const next = unfinished.size === 0 ? arrivedAt : heldBack(arrivedAt)
    const isNew = changes.length > 0 || next.applied !== position.applied || next.revision !== position.revision
    if (isNew)
      await recordLog.append(
        changes.map(({ record }) => record),
        next,
      )
    // Names that resolve differently now: nothing for the log, something for the proxy.
    const stale = [...resolvedAnew].map((key) => recordLog.records.get(key)).filter((record) => record !== undefined)
    resolvedAnew.clear()
    await applyChanges([...changes, ...(await planAll(stale))])
    position = next
    reached = arrivedAt
    onApplied()
    if (Date.now() >= sweepAt) await sweep()
  }

  /** A step among the others, so that no policy is prepared from a file that is just taken away. */
  async function sweep(): Promise<void> {
    sweepAt = Date.now() + sweepEveryMs
    const policies = [...recordLog.records.values(), ...unfinished.values()]
      .filter(({ key, value }) => value !== null && kindOf(key) === 'policy')
      .map(({ value }) => value as PolicyRecord)
    const files = await policyFiles.sweep(policies)
    if (files) log.info({ files }, 'files that no policy names any more were taken away')
  }

  function positionAfter(received: Received[]): Position {
    let { applied, revision, bucket } = reached
    for (const { progress, read } of received) {
      if (progress && progress.after <= applied) applied = Math.max(applied, progress.settled)
      if (read && read.bucket !== bucket) ({ bucket, revision } = read)
      else if (read) revision = Math.max(revision, read.revision)
    }
    return { applied, revision, bucket }
  }

  /** After a restart what is unfinished must be read again, so the place in the bucket stays before it. */
  function heldBack({ applied }: Position): Position {
    const first = Math.min(...[...unfinished.values()].map(({ generation }) => generation))
    return { ...position, applied: Math.max(position.applied, Math.min(applied, first - 1)) }
  }

  async function applyChanges(changes: readonly Change<Entry>[]): Promise<void> {
    const set: Entry[] = []
    const del: Entry[] = []
    const touched: EdgeRecord[] = []
    for (const { record, before, after } of changes) {
      const difference = proxy.difference(before, after)
      if (difference.set.length || difference.del.length) touched.push(record)
      set.push(...difference.set)
      del.push(...difference.del)
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
        await proxy
          .closeSessions(edges)
          .catch((err) => log.error({ err, edges }, 'open connections could not be closed'))
    }
  }

  /** The proxy must end up with what is on disk. Until it does, nothing newer is taken in and the report stays behind. */
  async function insist(work: () => Promise<void>): Promise<void> {
    while (!stopped) {
      try {
        return await work()
      } catch (err) {
        log.error({ err }, 'the proxy did not take a change: tried again in a second')
        refuse({ key: 'proxy', generation: null, reason: (err as Error).message })
        await new Promise((resolve) => setTimeout(resolve, retryMs))
      }
    }
  }

  async function work(): Promise<void> {
    while (arrived.length && !stopped) {
      const received = arrived.splice(0)
      try {
        await step(received)
      } catch (err) {
        // Such as a full disk. What arrived is taken in again: what is dropped here would be missing without a trace.
        arrived.unshift(...received)
        log.error({ err }, 'a step of the agent failed: tried again in a second')
        await new Promise((resolve) => setTimeout(resolve, retryMs))
      }
    }
  }
  function kick(): void {
    working ??= work().finally(() => {
      working = undefined
      if (arrived.length && !stopped) kick()
    })
  }
  const retry = setInterval(() => (unfinished.size || Date.now() >= sweepAt) && take({ records: [] }), retryMs)

  function take(received: Received): void {
    arrived.push(received)
    kick()
  }

  return {
    /** Plans everything that is on disk, for the proxy to start with. */
    async load(): Promise<Iterable<Entry>> {
      for (const { record, after } of await planAll(recordLog.records.values()))
        if (after.length) entries.set(record.key, after)
      return all()
    },
    take,
    refuse,
    /** A backend's name has another address now. */
    resolvedAnew(key: RecordKey): void {
      resolvedAnew.add(key)
      take({ records: [] })
    },
    state: () => ({
      applied: position.applied,
      bucket: position.bucket,
      revision: position.revision,
      records: recordLog.records.size,
      unfinished: unfinished.size,
      refusals: [...refusals],
    }),
    async stop(): Promise<void> {
      stopped = true
      clearInterval(retry)
      await working
    },
  }
}
