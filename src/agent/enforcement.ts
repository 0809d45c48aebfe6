import { setTimeout } from 'node:timers/promises'
import { type EdgeRecord, kindOf, type RecordKey } from '../distribution/records.ts'
import type { Log } from '../kernel/log.ts'
import { createReferences } from './affected.ts'
import type { Health } from './health.ts'
import { createInForce } from './in_force.ts'
import { type Compiler, type Plan, type Prepared, plan } from './plan.ts'
import type { Refusals } from './refusals.ts'
import { retryMs } from './worker.ts'

/** All that the agent has to know about a proxy. */
export type AnyProxy<Entry> = Compiler<Entry> & {
  /** Without these the proxy says that the node is not ready, instead of that there is nothing. */
  readyEntries: readonly Entry[]
  /** In force when it resolves. */
  apply: (change: { set: readonly Entry[]; del: readonly Entry[] }) => Promise<void>
  /** Why an entry is not in force although it was applied, completing '<record> …': another record was first. */
  shadowed: (entry: Entry) => string | undefined
  closeSessions: (targets: readonly string[]) => Promise<unknown>
}

type Parts = {
  log: Log
  known: ReadonlyMap<RecordKey, EdgeRecord>
  openConnections: 'keep' | 'close'
  refusals: Refusals
  health: Pick<Health, 'forget'>
}

/** What is in force in the proxy, and how it changes. */
export function createEnforcement<Entry>(parts: Parts, proxy: AnyProxy<Entry>) {
  const { log, known, openConnections, refusals, health } = parts
  const inForce = createInForce(known, proxy)
  /** Takes memory for each record, so it is there only where something asks it. */
  const references = openConnections === 'close' ? createReferences(known.values()) : undefined
  /** A complete state is known: the proxy may say what there is and what not. */
  let isReady = false

  /** The proxy must end up with what is on disk. Until it does, nothing newer is taken in and the report stays behind. */
  async function insist(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        return await work()
      } catch (err) {
        log.error({ err }, 'HAProxy did not accept a change; retrying in a second')
        refusals.refuse({ key: 'proxy', generation: null, reason: (err as Error).message })
        await setTimeout(retryMs, undefined, { signal }).catch(() => {})
      }
    }
  }

  async function closeConnections({ changes, touched }: Plan<Entry>): Promise<void> {
    if (!references) return
    for (const { before, record } of changes) references.replace(before, record)
    const targets = references.affected(touched)
    if (targets.length === 0) return
    await proxy.closeSessions(targets).catch((err) => log.error({ err, targets }, 'cannot close open connections'))
  }

  function planned(prepared: Iterable<Prepared>): Plan<Entry> {
    const result = plan(prepared, known, inForce.of, proxy)
    for (const refused of result.refused) refusals.refuse(refused)
    return result
  }

  function* entriesOf(prepared: Iterable<Prepared>): Generator<Entry> {
    if (isReady) yield* proxy.readyEntries
    for (const { record, value } of prepared) {
      const { key, generation } = record
      try {
        const entries = value === null ? [] : proxy.entriesOf(key, value)
        inForce.remember(key, entries)
        yield* entries
      } catch (error) {
        refusals.refuse({ key, generation, reason: (error as Error).message })
      }
    }
  }

  return {
    plan: planned,

    /** For the proxy to start with. */
    load(prepared: Iterable<Prepared>, ready: boolean): Iterable<Entry> {
      isReady = ready
      return entriesOf(prepared)
    },

    async apply(change: Plan<Entry>, ready: boolean, signal: AbortSignal): Promise<void> {
      const set = change.changes.flatMap(({ after }) => after)
      if (ready && !isReady) set.push(...proxy.readyEntries)
      isReady = ready
      for (const { record, after } of change.changes) inForce.remember(record.key, after)
      if (set.length || change.del.length) await insist(() => proxy.apply({ set, del: change.del }), signal)
      for (const { record, after } of change.changes) {
        const reason = after.map(proxy.shadowed).find((found) => found !== undefined)
        if (reason) refusals.refuse({ key: record.key, generation: record.generation, reason })
      }
      for (const { key } of change.touched)
        if (kindOf(key) === 'backend') health.forget(key.slice('backend.'.length), Date.now())
      await closeConnections(change)
    },
  }
}
export type Enforcement<Entry> = ReturnType<typeof createEnforcement<Entry>>
