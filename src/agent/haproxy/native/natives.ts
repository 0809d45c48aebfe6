import type { Observation } from '../../reports/health.ts'
import type { Claims } from '../maps/claims.ts'
import type { Entry } from '../maps/entries.ts'
import type { Turns } from '../process/turns.ts'
import type { ProxySettings } from '../settings.ts'
import { configOf } from './commands.ts'
import { nativeDifferences } from './comparison.ts'
import type { Definition, Server } from './definition.ts'
import { readHealth } from './health.ts'
import { type NativeChange, NativeModel, nativeEntries } from './model.ts'
import { createRetirement } from './retirement.ts'
import { bringBackendsUpToDate, createBackends, type Refused } from './runtime.ts'

type Parts = {
  settings: ProxySettings
  turns: Turns
  trouble: (error: unknown) => void
  onHealth: (observation: Observation) => void
}
type Difference = { set: readonly Entry[]; del: readonly Entry[] }

const staticBackendOf = ({ name }: Server): string => name.slice(0, name.indexOf('.'))
/** Identifies a server independently of its backend's name. */
const placeOf = (server: Server): string => `${staticBackendOf(server)} ${server.address} ${server.port}`

/** Manages the native backends of HAProxy: computes which should exist, and changes HAProxy to match. */
export function createNatives({ settings, turns, trouble, onHealth }: Parts, holder: Claims['holder']) {
  const model = new NativeModel(settings, holder)
  const retirement = createRetirement(settings, turns, trouble)
  const down = new Set<string>()
  const isDown = (server: Server): boolean => down.has(placeOf(server))

  /** Fails closed: a backend that HAProxy rejected has no entry, so nothing is dialed for it. */
  function withoutThese(refused: readonly Refused[]): Difference {
    for (const { definition, reason } of refused) {
      trouble(new Error(`backend ${definition.id} ${reason}`))
      model.refuse(definition, reason)
    }
    return nativeEntries(refused.map(({ definition }) => ({ before: definition, after: undefined })))
  }

  return {
    note: model.note.bind(model),
    fault: model.fault.bind(model),
    state: () => ({ ...model.state(), retiredBackends: retirement.size() }),

    /** Changes due to noted claims, and the entries that refer to them. */
    takeChanges(): { changes: NativeChange[]; entries: Difference } {
      const changes = model.takeChanges()
      return { changes, entries: nativeEntries(changes) }
    },

    /** Call before the entries that name the backends are added. Resolves to entries to remove again. */
    async create(changes: readonly NativeChange[]): Promise<Difference> {
      const created: Definition[] = []
      for (const { after } of changes) if (after && !(await retirement.revive(after))) created.push(after)
      return withoutThese(await createBackends(settings, created, isDown))
    },

    /** Call after the entries that named the backends are removed. */
    retire(changes: readonly NativeChange[]): void {
      retirement.add(changes.flatMap(({ before }) => (before ? [before.name] : [])))
    },

    /** A running HAProxy may have backends from an earlier agent or from its configuration. */
    async catchUp(): Promise<Difference> {
      retirement.clear()
      const { refused, unwanted } = await bringBackendsUpToDate(settings, model.all(), isDown)
      retirement.add(unwanted)
      return withoutThese(refused)
    },

    differences: () => nativeDifferences(settings, model.all(), retirement.has),

    /** Configuration of all native backends, for HAProxy to start with. */
    *config(): Generator<string> {
      for (const definition of model.all()) yield configOf(definition, isDown)
    },

    /**
     * Reads check results, of these backends or of all, and reports them. A server that is down stays down in a new
     * backend and in a new worker. Resolves to whether any state has changed.
     */
    async readHealth(names?: Iterable<string>): Promise<boolean> {
      // Read first, so that the known states survive if HAProxy does not answer.
      const found = await readHealth(settings, names)
      const before = new Set(down)
      if (names === undefined) down.clear()
      for (const { native, server: name, isUp, reason } of found) {
        const definition = model.named(native)
        const server = definition?.servers.find((each) => each.name === name)
        if (!definition || !server) continue
        if (isUp) down.delete(placeOf(server))
        else down.add(placeOf(server))
        const { address, port } = server
        const seen = { address, port, status: isUp ? 'up' : 'down', reason, at: Date.now() } as const
        onHealth({ backend: staticBackendOf(server), account: definition.account, ...seen })
      }
      return before.symmetricDifference(down).size > 0
    },
    stop: retirement.stop,
  }
}
export type Natives = ReturnType<typeof createNatives>
