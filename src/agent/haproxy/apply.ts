import { createHash } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import { setTimeout } from 'node:timers/promises'
import { writeAtomically } from '../atomic_file.ts'
import { writeAnswerFiles } from './answers.ts'
import { certificatesOf } from './certificates.ts'
import { Claims, type Command } from './claims.ts'
import { luaFile, renderConfig } from './config.ts'
import { type Entry, type MapName, mapNames } from './entries.ts'
import { writeMapFiles } from './map_files.ts'
import { haproxyProcess } from './process.ts'
import { changeCommands, replaceMap, tell } from './runtime.ts'
import { endSessions, formerDestinations } from './sessions.ts'
import { configFile, mapFolder, type ProxySettings, policyFolder } from './settings.ts'

export type Change = { readonly set: readonly Entry[]; readonly del: readonly Entry[] }

export type EdgeProxy = {
  /** Attaches to a running HAProxy or starts one; resolves when exactly these entries are in force. */
  start: (all: Iterable<Entry>) => Promise<void>
  /**
   * Resolves when HAProxy has it. When HAProxy does not take it, `all` is written and loaded instead; rejects when
   * that fails too, and then tries the whole again with the next change.
   */
  apply: (change: Change, all: () => Iterable<Entry>) => Promise<void>
  shadowed: (entry: Entry) => string | undefined
  /** Ends the open connections of TCP edges, also of deleted ones. Resolves to how many there were. */
  closeSessions: (edgeIds: Iterable<string>) => Promise<number>
  /** Serves what is in the certificate folder now. Called regularly on its own, too. */
  loadCertificates: () => Promise<void>
  /** Ends HAProxy when its clients have had time to go elsewhere and its requests to finish. */
  drain: (drain: Drain) => Promise<void>
  /** Ends HAProxy. */
  stop: () => Promise<void>
  /** Leaves HAProxy running without us. */
  detach: () => Promise<void>
}

export type Drain = {
  /** Goes on accepting for so long: load balancers and clients need it to notice. */
  readonly delayMs: number
  /** After that, what is open has so long to finish. */
  readonly deadlineMs: number
  /** Skips what is left of both. */
  readonly hurry: AbortSignal
}

export type ProxyOptions = {
  /** HAProxy was lost and is back, or could not be brought back yet. */
  readonly onTrouble?: (problem: Error) => void
  /** How old the files may be: only a reload that we did not ask for would read them in between. */
  readonly flushMs?: number
  readonly certificatesMs?: number
}

/** `set map` and `del map` walk the whole map; from about here on a new version of the map is cheaper. */
const fewChanges = 50
/** New entries are sent one by one. From this many on, unless the map is far larger, replacing the map is faster. */
const manyNew = 500

/**
 * The files are not rewritten with each change: 100,000 lines for one would be most of the work, and a journal is
 * nothing that HAProxy could read. They are current whenever HAProxy reads them, because only we start and reload it,
 * and write what has changed before that; and `flushMs` after a change in any case.
 */
export function createProxy(settings: ProxySettings, options: ProxyOptions = {}): EdgeProxy {
  const haproxy = haproxyProcess(settings)
  const claims = new Claims()
  const former = formerDestinations()
  const trouble = (error: unknown) => options.onTrouble?.(error as Error)
  const certificates = certificatesOf(settings, trouble)
  const unwritten = new Set<MapName>()
  const timers: NodeJS.Timeout[] = []
  let isInDoubt = false
  let isOver = false

  // One thing at a time: HAProxy is lost, changed and reloaded in an order that the files have to follow.
  let last: Promise<unknown> = Promise.resolve()
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = last.then(work)
    last = mine.catch(() => {})
    return mine
  }

  async function flush(): Promise<void> {
    const maps = [...unwritten]
    unwritten.clear()
    try {
      await writeMapFiles(settings, claims, maps)
    } catch (error) {
      for (const map of maps) unwritten.add(map)
      throw error
    }
  }

  async function bringBack(): Promise<void> {
    for (let waitMs = 100; !isOver && !haproxy.isAlive(); waitMs = Math.min(waitMs * 2, 5_000)) {
      try {
        await flush()
        await certificates.prepare()
        await haproxy.start()
      } catch (error) {
        trouble(error)
        await setTimeout(waitMs)
      }
    }
  }

  async function startFromFiles(): Promise<void> {
    await flush()
    await certificates.prepare()
    await haproxy.check()
    if (haproxy.isAlive()) await haproxy.reload()
    else await haproxy.start()
    isInDoubt = false
  }

  async function tellAll(commands: readonly Command[]): Promise<void> {
    const ordered = dependenciesFirst(commands)
    const replaced = new Set(mapNames.filter((map) => isCheaperToReplace(map, commands)))
    // Map after map, so that whatever an entry looks up is there before it.
    for (const map of mapNames) {
      if (replaced.has(map)) await replaceMap(settings, map, claims.entries(map))
      else await tellFew(ordered.filter((each) => each.map === map && each.kind !== 'del'))
    }
    await tellFew(ordered.filter(({ map, kind }) => kind === 'del' && !replaced.has(map)))
  }

  async function tellFew(commands: readonly Command[]): Promise<void> {
    if (commands.length > 0) await tell(settings.runtimeSocket, changeCommands(settings, commands))
  }

  function isCheaperToReplace(map: MapName, commands: readonly Command[]): boolean {
    const ofMap = commands.filter((each) => each.map === map)
    const adding = ofMap.filter(({ kind }) => kind === 'add').length
    return ofMap.length - adding > fewChanges || (adding > manyNew && adding > claims.size(map) / 4)
  }

  function watch(): void {
    haproxy.onLost(() => {
      trouble(new Error('HAProxy exited; restarting it'))
      void inTurn(bringBack)
    })
    const regularly = (work: () => Promise<void>, everyMs: number) => {
      timers.push(setInterval(() => void inTurn(work).catch(trouble), everyMs).unref())
    }
    regularly(flush, options.flushMs ?? 5_000)
    regularly(certificates.load, options.certificatesMs ?? 2_000)
  }

  async function end(work: () => void | Promise<void>): Promise<void> {
    isOver = true
    for (const timer of timers) clearInterval(timer)
    await inTurn(async () => {
      await flush()
      await work()
    })
  }

  async function drain({ delayMs, deadlineMs, hurry }: Drain): Promise<void> {
    if (delayMs > 0) {
      await inTurn(haproxy.closeKeptConnections).catch(trouble)
      await setTimeout(delayMs, undefined, { signal: hurry }).catch(() => {})
    }
    isOver = true
    for (const timer of timers) clearInterval(timer)
    if (deadlineMs === 0 || hurry.aborted) return
    await last
    // Not queued: connections of an edge may have to be closed while a change is running.
    await haproxy.finish(AbortSignal.any([hurry, AbortSignal.timeout(deadlineMs)])).catch(trouble)
  }

  return {
    start: (all) =>
      inTurn(async () => {
        for (const folder of [settings.folder, mapFolder(settings), policyFolder(settings), settings.certificateFolder])
          await mkdir(folder, { recursive: true, mode: 0o700 })
        claims.replace(all)
        for (const map of mapNames) unwritten.add(map)
        await writeAnswerFiles(settings)
        const config = await currentConfig(settings)
        const isSame = config === (await readFile(configFile(settings), 'utf8').catch(() => undefined))
        if (!isSame) await writeAtomically(configFile(settings), [config])
        if (isSame && (await haproxy.attach())) {
          await flush()
          for (const map of mapNames) await replaceMap(settings, map, claims.entries(map))
          await certificates.load()
        } else {
          await haproxy.attach()
          await startFromFiles()
        }
        watch()
      }),

    apply: (change, all) =>
      inTurn(async () => {
        former.note(change)
        const commands = claims.change(change)
        for (const { map } of commands) unwritten.add(map)
        // It accepts nothing any more, and must not be started again for this.
        if (isOver) return
        try {
          if (isInDoubt) throw new Error('an earlier change was not accepted')
          await tellAll(commands)
        } catch (cause) {
          isInDoubt = true
          trouble(new Error('HAProxy did not accept a change; reloading the whole configuration', { cause }))
          claims.replace(all())
          for (const map of mapNames) unwritten.add(map)
          await startFromFiles()
        }
      }),

    shadowed({ map, key, value }) {
      const port = key.slice(key.lastIndexOf(':') + 1)
      const { first, last } = settings.tcpBind
      if (map === 'tcp' && (Number(port) < first || Number(port) > last))
        return `is not reached on port ${port}: this node listens on ports ${first} to ${last} (GATEHOUSE_TCP_PORTS)`
      // Without naming the holder, which may belong to another account.
      return claims.holder(map, key) === value ? undefined : shadowedReasons[map]?.(port)
    },
    closeSessions: (edgeIds) => inTurn(() => endSessions(settings, former.destinationsOf(edgeIds, claims))),
    loadCertificates: () => inTurn(certificates.load),
    drain,
    stop: () => end(haproxy.stop),
    detach: () => end(haproxy.detach),
  }
}

const shadowedReasons: Partial<Record<MapName, (port: string) => string>> = {
  tcp: (port) =>
    `is not reached on port ${port}, which an older edge has: a TCP client does not say which name it asked for`,
  route: () => 'is not reached, because an older route has the same path in another spelling',
}

/** With the Lua file's digest: a new one has to be loaded although the configuration says the same. */
async function currentConfig(settings: ProxySettings): Promise<string> {
  const digest = createHash('sha256')
    .update(await readFile(luaFile))
    .digest('hex')
  return `${renderConfig(settings)}\n# gatehouse.lua ${digest}\n`
}

/**
 * What an entry looks up is there before it, and goes after it; restrictions are in force before what they restrict. Of
 * routes and names the narrower come first and go last: for a moment without it, /admin would be served by the route of /.
 */
function dependenciesFirst(commands: readonly Command[]): Command[] {
  const rank = ({ map, kind }: Command) =>
    kind === 'del' ? 2 * mapNames.length - mapNames.indexOf(map) : mapNames.indexOf(map)
  const width = ({ key, kind }: Command) => (kind === 'del' ? key.length : -key.length)
  return commands.toSorted((a, b) => rank(a) - rank(b) || width(a) - width(b))
}
