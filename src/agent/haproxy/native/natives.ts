import type { Claims } from '../claims.ts'
import type { Entry } from '../entries.ts'
import type { ProxySettings } from '../settings.ts'
import type { Turns } from '../turns.ts'
import { configOf } from './commands.ts'
import type { Definition, Server } from './definition.ts'
import { type NativeChange, NativeModel, nativeEntries } from './model.ts'
import { createRetirement } from './retirement.ts'
import { bringBackendsUpToDate, createBackends, type Refused } from './runtime.ts'

type Parts = { settings: ProxySettings; turns: Turns; trouble: (error: unknown) => void }
type Difference = { set: readonly Entry[]; del: readonly Entry[] }

/** Which server it is, whatever the backend that it is in. */
const placeOf = (server: Pick<Server, 'name' | 'address' | 'port'>): string =>
  `${server.name.slice(0, server.name.indexOf('.'))} ${server.address} ${server.port}`

/** The native backends of HAProxy: which there should be, which there are, and how one becomes the other. */
export function createNatives({ settings, turns, trouble }: Parts, holder: Claims['holder']) {
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
    settle(): { changes: NativeChange[]; entries: Difference } {
      const changes = model.settle()
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

    /** With whatever a running HAProxy has, of an earlier agent or of its configuration. */
    async catchUp(): Promise<Difference> {
      retirement.clear()
      const { refused, unwanted } = await bringBackendsUpToDate(settings, model.all(), isDown)
      retirement.add(unwanted)
      return withoutThese(refused)
    },

    /** All of them, for HAProxy to start with. */
    *config(): Generator<string> {
      for (const definition of model.all()) yield configOf(definition, isDown)
    },

    definitions: (): Iterable<Definition> => model.all(),

    /** What checks have found. A server that is down stays so in a new backend and in a new worker. */
    noteHealth(server: Pick<Server, 'name' | 'address' | 'port'>, isUp: boolean): void {
      if (isUp) down.delete(placeOf(server))
      else down.add(placeOf(server))
    },
    stop: retirement.stop,
  }
}
export type Natives = ReturnType<typeof createNatives>
