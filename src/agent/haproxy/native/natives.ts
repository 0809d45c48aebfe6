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
/** Identifies a server independent of its backend's name. */
const placeOf = (server: Server): string => `${staticBackendOf(server)} ${server.address} ${server.port}`

/** The native backends of HAProxy: which there should be, which there are, and how one becomes the other. */
export function createNatives({ settings, turns, trouble, onHealth }: Parts, holder: Claims['holder']) {
  const model = new NativeModel(settings, holder)
  const retirement = createRetirement(settings, turns, trouble)
  const down = new Set<string>()
  const isDown = (server: Server): boolean => down.has(placeOf(server))

  /** Fail closed: what HAProxy did not take has no entry, and nothing is dialed for it. */
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

    /** What has to change because of what was noted, and the entries that say so. */
    takeChanges(): { changes: NativeChange[]; entries: Difference } {
      const changes = model.takeChanges()
      return { changes, entries: nativeEntries(changes) }
    },

    /** Before the entries that name them. Resolves to entries that must go again. */
    async create(changes: readonly NativeChange[]): Promise<Difference> {
      const created: Definition[] = []
      for (const { after } of changes) if (after && !(await retirement.revive(after))) created.push(after)
      return withoutThese(await createBackends(settings, created, isDown))
    },

    /** After the entries that named them have gone. */
    retire(changes: readonly NativeChange[]): void {
      retirement.add(changes.flatMap(({ before }) => (before ? [before.name] : [])))
    },

    /** A running HAProxy may have backends of an earlier agent or of its configuration. */
    async catchUp(): Promise<Difference> {
      retirement.clear()
      const { refused, unwanted } = await bringBackendsUpToDate(settings, model.all(), isDown)
      retirement.add(unwanted)
      return withoutThese(refused)
    },

    /** What of them is not as it was made. */
    differences: () => nativeDifferences(settings, model.all(), retirement.has),

    /** All of them, for HAProxy to start with. */
    *config(): Generator<string> {
      for (const definition of model.all()) yield configOf(definition, isDown)
    },

    /**
     * Reads what checks have found, of these or of all, and passes it on. A server that is down stays so in a new backend and in
     * a new worker. Resolves to whether any has another state than before.
     */
    async readHealth(names?: Iterable<string>): Promise<boolean> {
      // First, so that what is known stays known when HAProxy does not answer.
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
