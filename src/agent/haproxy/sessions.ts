import type { Claims } from './claims.ts'
import type { Entry } from './entries.ts'
import { ask } from './runtime.ts'
import type { ProxySettings } from './settings.ts'

/** `address:port` as HAProxy prints it, or `*:port`. */
export type Destinations = { readonly has: (addressAndPort: string) => boolean; readonly isEmpty: boolean }

/** How many deleted or moved edges are remembered for a `closeSessions` that comes after the change. */
const remembered = 10_000

const edgeOf = (value: string): string => value.split('|', 1)[0] ?? ''

/**
 * HAProxy does not say which edge a session belongs to, but which destination it came to. So what an edge was reached
 * under is remembered after it has gone from the map, until its sessions have been closed.
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

    destinationsOf(edgeIds: Iterable<string>, claims: Claims): Destinations {
      const edges = new Set(edgeIds)
      const keys = new Set<string>()
      for (const edge of edges) {
        for (const key of former.get(edge) ?? []) keys.add(key)
        former.delete(edge)
      }
      for (const [key, value] of claims.entries('tcp')) if (edges.has(edgeOf(value))) keys.add(key)
      return {
        isEmpty: keys.size === 0,
        has(addressAndPort) {
          const anyAddress = `*${addressAndPort.slice(addressAndPort.lastIndexOf(':'))}`
          const isOthers = claims.holder('tcp', addressAndPort) !== undefined
          return keys.has(addressAndPort) || (keys.has(anyAddress) && !isOthers)
        },
      }
    },
  }
}

/**
 * In every worker: those that a reload has left behind serve their sessions to the end. What came to a destination
 * after it went to another edge is closed with the rest; its client connects again.
 */
export async function endSessions(settings: ProxySettings, destinations: Destinations): Promise<number> {
  if (destinations.isEmpty) return 0
  const workers = (await ask(settings.masterSocket, 'show proc')).matchAll(/^(\d+)\s+worker\s/gm)
  let count = 0
  for (const [, pid] of workers) {
    const sessions = parseSessions(await ask(settings.masterSocket, `@!${pid} show sess all`))
    for (const { id, destination } of sessions) {
      if (!destinations.has(destination)) continue
      await ask(settings.masterSocket, `@!${pid} shutdown session ${id}`)
      count++
    }
  }
  return count
}

function* parseSessions(text: string): Generator<{ id: string; destination: string }> {
  for (const session of text.split(/^(?=0x)/m)) {
    const id = /^(0x[0-9a-f]+):/.exec(session)?.[1]
    const destination = /^\s+frontend=tcp .*? addr=(\S+)$/m.exec(session)?.[1]
    if (id && destination) yield { id, destination }
  }
}
