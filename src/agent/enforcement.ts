import { type EdgeRecord, kindOf, type RecordKey } from '../distribution/records.ts'
import type { Log } from '../kernel/log.ts'
import { type Timing, wait } from '../kernel/timing.ts'
import { createReferences } from './affected.ts'
import type { EdgeProxy } from './haproxy/apply.ts'
import { type Entry, entriesOf, readyEntries } from './haproxy/maps/entries.ts'
import { createInForce } from './in_force.ts'
import { type Plan, type Prepared, plan } from './plan.ts'
import type { Refusals } from './refusals.ts'
import type { Health } from './reports/health.ts'

export type Enforcer = Pick<EdgeProxy, 'apply' | 'shadowed' | 'closeSessions'>

type Parts = {
  log: Log
  timing: Timing
  known: ReadonlyMap<RecordKey, EdgeRecord>
  openConnections: 'keep' | 'close'
  refusals: Refusals
  health: Pick<Health, 'forget'>
  retryMs: number
}

/** Tracks the entries in force in the proxy and changes them. */
export function createEnforcement(parts: Parts, proxy: Enforcer) {
  const { log, timing, known, refusals, health, retryMs } = parts
  const inForce = createInForce(known)
  const connections = createConnections(parts, proxy)
  const shadowing = createShadowing(parts, proxy, inForce)
  /** True once the node knows a complete state, so that the proxy may say that something does not exist. */
  let isReady = false

  /**
   * Retries until the proxy matches the disk. Meanwhile the node takes in nothing newer and reports no newer generation.
   */
  async function insist(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        return await work()
      } catch (err) {
        log.error({ err }, 'HAProxy did not accept a change; retrying in a second')
        refusals.refuse({ key: 'proxy', generation: null, reason: (err as Error).message })
        await wait(timing, retryMs, signal)
      }
    }
  }

  function planned(prepared: Iterable<Prepared>): Plan {
    const result = plan(prepared, known, inForce.of)
    for (const refused of result.refused) refusals.refuse(refused)
    return result
  }

  function* allEntries(prepared: Iterable<Prepared>): Generator<Entry> {
    if (isReady) yield* readyEntries
    for (const { record, value } of prepared) {
      const { key, generation } = record
      try {
        const entries = value === null ? [] : entriesOf(key, value)
        inForce.remember(key, entries)
        yield* entries
      } catch (error) {
        refusals.refuse({ key, generation, reason: (error as Error).message })
      }
    }
  }

  return {
    plan: planned,

    /** Initial entries for the proxy. */
    load(prepared: Iterable<Prepared>, ready: boolean): Iterable<Entry> {
      isReady = ready
      return allEntries(prepared)
    },

    async apply(change: Plan, ready: boolean, signal: AbortSignal): Promise<void> {
      const set = change.changes.flatMap(({ after }) => after)
      if (ready && !isReady) set.push(...readyEntries)
      isReady = ready
      for (const { record, after } of change.changes) inForce.remember(record.key, after)
      if (set.length || change.del.length) await insist(() => proxy.apply({ set, del: change.del }), signal)
      for (const { record, after } of change.changes) shadowing.note(record, after)
      if (change.touched.length > 0) shadowing.checkAgain()
      for (const { key } of change.touched)
        if (kindOf(key) === 'backend') health.forget(key.slice('backend.'.length), timing.now())
      connections.noteAffected(change)
    },

    closeConnections: connections.close,
    unclosed: connections.unclosed,
  }
}
export type Enforcement = ReturnType<typeof createEnforcement>

/** Tracks which open connections have to be closed after a change. */
function createConnections({ log, known, openConnections, refusals }: Parts, proxy: Enforcer) {
  /** Takes memory for each record, so it exists only if open connections are closed. */
  const references = openConnections === 'close' ? createReferences(known.values()) : undefined
  /** Edges and routes whose connections still have to be closed. */
  const unclosed = new Set<string>()

  function noteAffected({ changes, touched }: Plan): void {
    if (!references) return
    for (const { before, record } of changes) references.replace(before, record)
    for (const target of references.affected(touched)) unclosed.add(target)
  }

  /** Targets that fail stay in the set. Later changes do not wait for them. */
  async function close(): Promise<void> {
    if (unclosed.size === 0) return
    try {
      await proxy.closeSessions([...unclosed])
      unclosed.clear()
    } catch (err) {
      log.error({ err, targets: unclosed.size }, 'cannot close open connections; retrying in a second')
      const reason = `cannot close open connections: ${(err as Error).message}`
      refusals.refuse({ key: 'proxy', generation: null, reason })
    }
  }

  return {
    noteAffected,
    close,
    unclosed: (): ReadonlySet<string> => unclosed,
  }
}

/** Refuses records whose key an older record already holds. */
function createShadowing({ known, refusals }: Parts, proxy: Enforcer, inForce: ReturnType<typeof createInForce>) {
  function note({ key, generation }: EdgeRecord, entries: readonly Entry[]): void {
    const reason = entries.map(proxy.shadowed).find((found) => found !== undefined)
    if (reason === undefined) refusals.accept(key, generation)
    else if (refusals.records.get(key)?.reason !== reason) refusals.refuse({ key, generation, reason })
  }

  /** The record that caused the shadowing may be gone. */
  function checkAgain(): void {
    for (const [key, { generation }] of refusals.records) {
      const record = known.get(key)
      const entries = record?.generation === generation ? inForce.of(key) : []
      if (record && entries.length > 0) note(record, entries)
    }
  }

  return { note, checkAgain }
}
