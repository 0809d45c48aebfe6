import type { ConfigFile } from '../config/config_file.ts'
import type { Loading } from '../loading.ts'
import type { Natives } from '../native/natives.ts'
import type { HaproxyProcess } from '../process/process.ts'
import type { MapRuntime, Place } from '../process/runtime.ts'
import type { Claims, Command } from './claims.ts'
import type { Entry } from './entries.ts'
import { changeAndReadBack } from './map_changes.ts'
import type { createMapFiles } from './map_files.ts'

export type Change = { readonly set: readonly Entry[]; readonly del: readonly Entry[] }

type Parts = {
  runtime: MapRuntime
  haproxy: Pick<HaproxyProcess, 'attach'>
  claims: Claims
  natives: Pick<Natives, 'takeChanges' | 'create' | 'retire'>
  config: Pick<ConfigFile, 'isCurrent'>
  files: Pick<ReturnType<typeof createMapFiles>, 'outdate'>
  loading: Pick<Loading, 'startFromFiles' | 'catchUp' | 'orElseReload'>
  /** The agent is ending HAProxy and must not start it again for a change. */
  isOver: () => boolean
}

/** Brings entries into HAProxy's maps, at the start and with each change. Callers serialize the calls. */
export function createMapEnforcement({ runtime, haproxy, claims, natives, config, files, loading, isOver }: Parts) {
  /** Keys that were changed and not read back yet. A change counts as applied once this is empty. */
  const unread = new Map<string, Place>()
  function note(commands: readonly Command[]): void {
    for (const { map, key } of commands) unread.set(`${map} ${key}`, { map, key })
  }
  async function send(commands: readonly Command[]): Promise<void> {
    await changeAndReadBack(runtime, claims, commands, [...unread.values()])
    unread.clear()
  }

  return {
    /**
     * Attaches to a running HAProxy or starts one; resolves once exactly these entries are in force. `prepare` runs
     * after the entries are known.
     */
    async start(all: Iterable<Entry>, prepare = async (): Promise<void> => {}): Promise<void> {
      claims.replace(all)
      await prepare()
      claims.change(natives.takeChanges().entries)
      files.outdate()
      const isSameConfig = await config.isCurrent()
      const isRunning = await haproxy.attach()
      if (!isRunning || !isSameConfig) await loading.startFromFiles()
      else await loading.orElseReload('HAProxy cannot be brought up to date', loading.catchUp)
    },
    async apply(change: Change): Promise<void> {
      const commands = claims.change(change)
      const { changes, entries } = natives.takeChanges()
      commands.push(...claims.change(entries))
      note(commands)
      files.outdate([...commands.map(({ map }) => map), ...(changes.length > 0 ? ['config' as const] : [])])
      if (isOver()) return
      const work = async () => {
        const without = claims.change(await natives.create(changes))
        note(without)
        await send([...commands, ...without])
        natives.retire(changes)
      }
      await loading.orElseReload('HAProxy did not accept a change', work, () => send([]))
    },
  }
}
