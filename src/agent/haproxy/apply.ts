import { createHash } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import { writeAtomically } from '../atomic_file.ts'
import { writeAnswerFiles } from './answers.ts'
import { certificatesOf } from './certificates.ts'
import { Claims } from './claims.ts'
import { luaFile, renderConfig } from './config.ts'
import type { Entry } from './entries.ts'
import { createLifetime, type Drain, type ProxyOptions } from './lifetime.ts'
import { bringUpToDate, changeMaps } from './map_changes.ts'
import { createMapFiles } from './map_files.ts'
import { haproxyProcess } from './process.ts'
import { endSessions, formerDestinations } from './sessions.ts'
import { configFile, mapFolder, type ProxySettings, policyFolder } from './settings.ts'
import { whyShadowed } from './shadowed.ts'
import { createTurns } from './turns.ts'

export type Change = { readonly set: readonly Entry[]; readonly del: readonly Entry[] }

export type EdgeProxy = {
  /** Attaches to a running HAProxy or starts one; resolves when exactly these entries are in force. */
  start: (all: Iterable<Entry>) => Promise<void>
  /**
   * Resolves when HAProxy has it. What is set may be in force already. When HAProxy does not take a change, everything is
   * written and loaded instead; rejects when that fails too, and then tries the whole again with the next change.
   */
  apply: (change: Change) => Promise<void>
  shadowed: (entry: Entry) => string | undefined
  /** Ends the open connections of TCP edges, also of deleted ones. Resolves to how many there were. */
  closeSessions: (targets: readonly string[]) => Promise<number>
  /** Serves the current certificate folder. Also called regularly. */
  loadCertificates: () => Promise<void>
  /** Ends HAProxy when its clients have had time to go elsewhere and its requests to finish. */
  drain: (drain: Drain) => Promise<void>
  /** Ends HAProxy. */
  stop: () => Promise<void>
  /** Leaves HAProxy running without us. */
  detach: () => Promise<void>
}

export function createProxy(settings: ProxySettings, options: ProxyOptions = {}): EdgeProxy {
  const haproxy = haproxyProcess(settings)
  const claims = new Claims()
  const files = createMapFiles(settings, claims)
  const former = formerDestinations()
  const trouble = (error: unknown) => options.onTrouble?.(error as Error)
  const certificates = certificatesOf(settings, trouble)
  // One thing at a time: HAProxy is lost, changed and reloaded in an order that the files have to follow.
  const turns = createTurns()
  const lifetime = createLifetime({ haproxy, files, certificates, turns, trouble }, options)
  let isInDoubt = false

  async function startFromFiles(): Promise<void> {
    await files.flush()
    await certificates.prepare()
    await haproxy.check()
    if (haproxy.isAlive()) await haproxy.reload()
    else await haproxy.start()
    isInDoubt = false
  }

  /** With what an earlier agent has left behind. The files follow; see lifetime.ts. */
  async function catchUp(): Promise<void> {
    await bringUpToDate(settings, claims)
    await certificates.load()
  }

  async function orElseReload(failure: string, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (cause) {
      isInDoubt = true
      trouble(new Error(`${failure}; reloading the whole configuration`, { cause }))
      files.outdate()
      await startFromFiles()
    }
  }

  async function start(all: Iterable<Entry>): Promise<void> {
    await prepareFolders(settings)
    claims.replace(all)
    files.outdate()
    const isSameConfig = await writeConfig(settings)
    const isRunning = await haproxy.attach()
    if (!isRunning || !isSameConfig) await startFromFiles()
    else await orElseReload('HAProxy cannot be brought up to date', catchUp)
    lifetime.begin()
  }

  async function apply(change: Change): Promise<void> {
    former.note(change)
    const commands = claims.change(change)
    files.outdate(commands.map(({ map }) => map))
    // It accepts nothing any more, and must not be started again for this.
    if (lifetime.isOver()) return
    await orElseReload('HAProxy did not accept a change', async () => {
      if (isInDoubt) throw new Error('an earlier change was not accepted')
      await changeMaps(settings, commands)
    })
  }

  return {
    start: (all) => turns.next(() => start(all)),
    apply: (change) => turns.next(() => apply(change)),
    shadowed: (entry) => whyShadowed(settings, claims, entry),
    closeSessions: (targets) =>
      turns.next(() => endSessions(settings, former.destinationsOf(targets, claims), new Set(targets))),
    loadCertificates: () => turns.next(certificates.load),
    drain: lifetime.drain,
    stop: () => lifetime.end(haproxy.stop),
    detach: () => lifetime.end(haproxy.detach),
  }
}

async function prepareFolders(settings: ProxySettings): Promise<void> {
  for (const folder of [settings.folder, mapFolder(settings), policyFolder(settings), settings.certificateFolder])
    await mkdir(folder, { recursive: true, mode: 0o700 })
  await writeAnswerFiles(settings)
}

/** Resolves to whether it was the same before. */
async function writeConfig(settings: ProxySettings): Promise<boolean> {
  const config = await currentConfig(settings)
  const isSame = config === (await readFile(configFile(settings), 'utf8').catch(() => undefined))
  if (!isSame) await writeAtomically(configFile(settings), [config])
  return isSame
}

/** With the Lua file's digest: a new one has to be loaded although the configuration says the same. */
async function currentConfig(settings: ProxySettings): Promise<string> {
  const digest = createHash('sha256')
    .update(await readFile(luaFile))
    .digest('hex')
  return `${renderConfig(settings)}\n# gatehouse.lua ${digest}\n`
}
