import { randomInt } from 'node:crypto'
import { answers } from './config/answers.ts'
import { refuseOver, tableOfOpen } from './config/limits.ts'
import { part } from './config/rules.ts'
import type { Claims } from './maps/claims.ts'
import type { Entry } from './maps/entries.ts'
import { ask, RuntimeError } from './process/runtime.ts'
import type { ProxySettings } from './settings.ts'

/** `address:port` as HAProxy prints it, or `*:port`. */
export type Destinations = { readonly has: (addressAndPort: string) => boolean; readonly isEmpty: boolean }

/** Number of deleted or moved edges to remember for a `closeSessions` after the change. */
const remembered = 10_000

const edgeOf = (value: string): string => value.split('|', 1)[0] ?? ''

/**
 * HAProxy shows the destination of a session, but not its edge. The destinations of an edge are therefore remembered
 * after it has left the map, until its sessions have been closed.
 */
export function formerDestinations() {
  const former = new Map<string, Set<string>>()
  return {
    note({ del }: { del: Iterable<Entry> }): void {
      for (const { map, key, value } of del) {
        if (map !== 'tcp') continue
        const edge = edgeOf(value)
        former.set(edge, (former.get(edge) ?? new Set()).add(key))
        if (former.size > remembered) former.delete(former.keys().next().value as string)
      }
    },

    /** If it fails, the same call can be repeated. Resolves to the number of closed sessions. */
    async closeSessions(settings: ProxySettings, targets: readonly string[], claims: Claims): Promise<number> {
      const count = await endSessions(settings, destinationsOf(targets, claims), new Set(targets))
      for (const edge of targets) former.delete(edge)
      return count
    },
  }

  function destinationsOf(edgeIds: Iterable<string>, claims: Claims): Destinations {
    const edges = new Set([...edgeIds].filter((id) => id.startsWith('edgtcp_')))
    const keys = new Set<string>()
    for (const edge of edges) for (const key of former.get(edge) ?? []) keys.add(key)
    // A node may have a hundred thousand entries, and most changes concern none of them.
    if (edges.size > 0) for (const [key, value] of claims.entries('tcp')) if (edges.has(edgeOf(value))) keys.add(key)
    return {
      isEmpty: keys.size === 0,
      has(addressAndPort) {
        const anyAddress = `*${addressAndPort.slice(addressAndPort.lastIndexOf(':'))}`
        const isOthers = claims.holder('tcp', addressAndPort) !== undefined
        return keys.has(addressAndPort) || (keys.has(anyAddress) && !isOthers)
      },
    }
  }
}

/**
 * Records a request that may become a WebSocket with its route while it lasts. It does so once the request is allowed
 * and within its limits, so that only admitted clients fill the table. A session that does not fit could not be closed
 * later, and is refused. HAProxy does not show the variables of a session, but `txn.id32` is the number that it shows as
 * `id`.
 *
 * A request that is decided before a change and recorded after the following close would be missed. Each close therefore
 * changes `proc.closes` first, and a request is refused if the value differs from the one before its look-ups.
 */
export const beforeWebsocket = `
  acl upgrades req.fhdr(upgrade) -m found
  http-request set-var(txn.closes) var(proc.closes) if upgrades`
export const noteWebsocket = `
  http-request set-var(txn.route) ${part('txn.entry', 'target')} if upgrades
  http-request track-sc5 txn.id32,concat(|,txn.route) table websockets if upgrades
  http-request set-var(txn.over) str(websockets) if upgrades !{ sc_tracked(5) }${refuseOver('http-request', `return ${answers.overLimit}`)}
  http-request return ${answers.changing} if upgrades !{ var(txn.closes),sub(proc.closes) eq 0 }`
export const websocketTable = (settings: ProxySettings): string =>
  tableOfOpen('websockets', 'string len 64', maxWebsockets(settings), '1s')
/** As many as HAProxy has file descriptors for; with an HTTP/2 upstream, not every WebSocket needs its own. */
const maxWebsockets = ({ maxconn }: ProxySettings): number => 2 * maxconn

/**
 * Ends TCP connections by destination and WebSockets by route, in every worker: workers from before a reload still serve
 * their sessions. A connection that came to a destination after the move to another edge is closed too; its client
 * reconnects.
 */
export async function endSessions(
  settings: ProxySettings,
  destinations: Destinations,
  routes: ReadonlySet<string>,
): Promise<number> {
  let count = 0
  for (const pid of await workersOf(settings)) {
    if (!(await beginClose(settings, pid))) continue
    const websockets = idsOfWebsockets(await ask(settings.masterSocket, `@!${pid} show table websockets`), routes)
    if (destinations.isEmpty && websockets.size === 0) continue
    const sessions = parseSessions(await ask(settings.masterSocket, `@!${pid} show sess all`))
    for (const { pointer, id, destination } of sessions) {
      if (!(destination && destinations.has(destination)) && !websockets.has(id)) continue
      await ask(settings.masterSocket, `@!${pid} shutdown session ${pointer}`)
      count++
    }
  }
  return count
}

/** Ends long-lived traffic from these addresses: TCP connections, WebSockets and requests in flight. */
export async function endSessionsFrom(settings: ProxySettings, isRefused: (source: string) => boolean): Promise<void> {
  for (const pid of await workersOf(settings)) {
    const sessions = parseSessions(await ask(settings.masterSocket, `@!${pid} show sess all`))
    for (const { pointer, source } of sessions)
      if (source !== undefined && isRefused(source))
        await ask(settings.masterSocket, `@!${pid} shutdown session ${pointer}`)
  }
}

async function workersOf({ masterSocket }: ProxySettings): Promise<string[]> {
  const listed = await ask(masterSocket, 'show proc')
  return [...listed.matchAll(/^(\d+)\s+worker\s/gm)].map(([, pid = '']) => pid)
}

/** Resolves to false if the worker has exited since it was listed, and all its sessions with it. */
async function beginClose({ masterSocket }: ProxySettings, pid: string): Promise<boolean> {
  const value = randomInt(2 ** 47)
  const answer = await ask(masterSocket, `experimental-mode on; @!${pid} set var proc.closes int(${value})`)
  if (answer.startsWith("Can't find the target PID")) return false
  if (answer) throw new RuntimeError(`HAProxy answered ${answer.slice(0, 200)} when asked to begin a close`)
  return true
}

function idsOfWebsockets(table: string, routes: ReadonlySet<string>): Set<number> {
  const found = new Set<number>()
  for (const [, id, route = ''] of table.matchAll(/ key=(\d+)\|(\S+) use=[1-9]/g))
    if (routes.has(route)) found.add(Number(id))
  return found
}

/** The table has the last 32 bits of the id. */
const id32 = (id: string): number => Number(BigInt.asUintN(32, BigInt(id)))

type Session = { pointer: string; id: number; source: string | undefined; destination: string | undefined }

function* parseSessions(text: string): Generator<Session> {
  for (const session of text.split(/^(?=0x)/m)) {
    const [, pointer, id] = /^(0x[0-9a-f]+):.*? id=(\d+) /.exec(session) ?? []
    const destination = /^\s+frontend=tcp .*? addr=(\S+)$/m.exec(session)?.[1]
    const source = / source=(\S+):\d+$/m.exec(session)?.[1]
    if (pointer && id) yield { pointer, id: id32(id), source, destination }
  }
}
