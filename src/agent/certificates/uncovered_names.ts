import {
  type EdgeRecord,
  type HttpsRecord,
  kindOf,
  type MutualTlsRecord,
  type RecordKey,
  type RouteRecord,
} from '../../distribution/records.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Uncovered } from '../../kernel/edge/edge_nodes.ts'
import type { NameServer } from './name_server.ts'

/** Limits how often a burst of changes scans the names of a large node. */
const lookAgainMs = 2_000
const maxShown = 20

/** Size limit for names in a report, which is a single message that the node sends every two seconds. */
const maxReportedBytes = 16 * 1024

export type UncoveredNames = {
  missing: number
  missingNames: readonly string[]
  uncovered: Uncovered
}

/**
 * HTTPS edge names without a certificate on this node, neither from an account nor in the operator's folder. Clients of
 * these names get a TLS alert.
 */
export function createUncoveredNames(
  known: ReadonlyMap<RecordKey, EdgeRecord>,
  names: Pick<NameServer, 'taken' | 'served'>,
  clock: Clock,
) {
  const hosts = new Map<RecordKey, readonly string[]>()
  /**
   * The account of each HTTPS edge. The edge's own record does not name it; the records of its routes do. An edge
   * without routes serves nothing.
   */
  const accounts = new Map<RecordKey, string>()
  let isCurrent = false
  let lookedAt = Number.NEGATIVE_INFINITY
  let taken = names.taken()
  let found: UncoveredNames = { missing: 0, missingNames: [], uncovered: { accounts: [], isCut: false } }

  function isCovered(name: string): boolean {
    const wildcard = `*${name.slice(name.indexOf('.'))}`
    const served = names.served()
    if (taken.has(name) || taken.has(wildcard) || served.has(name)) return true
    return served.has(wildcard) && !served.get(wildcard)?.except.includes(name)
  }

  function noteRoute(route: RouteRecord | null | undefined): void {
    if (!route || accounts.get(`https.${route.edge}`) === route.account) return
    accounts.set(`https.${route.edge}`, route.account)
    isCurrent = false
  }

  function noteEdge(key: RecordKey): void {
    isCurrent = false
    const value = known.get(key)?.value as HttpsRecord | null | undefined
    if (value && 'account' in value) accounts.set(key, (value as MutualTlsRecord).account)
    if (value) hosts.set(key, [...new Set(value.hostports.map(hostOf))])
    else for (const map of [hosts, accounts]) map.delete(key)
  }

  function look(): UncoveredNames {
    const missing = new Map<string, string>()
    for (const [key, each] of hosts)
      for (const name of each) if (!isCovered(name)) missing.set(name, accounts.get(key) ?? '')
    return {
      missing: missing.size,
      missingNames: [...missing.keys()].slice(0, maxShown),
      uncovered: byAccount(missing),
    }
  }

  return {
    /** Call this when the set of served names changes. */
    servedChanged(): void {
      isCurrent = false
    },
    /** Call this when an HTTPS edge changes, whose names may be new, or when one of its routes changes. */
    note(key: RecordKey): void {
      if (kindOf(key) === 'route') noteRoute(known.get(key)?.value as RouteRecord | null | undefined)
      else noteEdge(key)
    },
    state(): UncoveredNames {
      const isStale = !isCurrent || names.taken() !== taken
      if (!isStale || clock() - lookedAt < lookAgainMs) return found
      taken = names.taken()
      isCurrent = true
      lookedAt = clock()
      found = look()
      return found
    },
  }
}

/**
 * Lists as many names as fit, taking accounts in turn, so that an account with thousands of names does not hide the
 * others. The counts of all accounts come before any name.
 */
function byAccount(missing: ReadonlyMap<string, string>): Uncovered {
  const names = Map.groupBy(missing.keys(), (name) => missing.get(name) ?? '')
  names.delete('')
  let room = maxReportedBytes
  const found: { account: string; count: number; names: string[] }[] = []
  for (const [account, { length: count }] of names) {
    const entry = { account, count, names: [] }
    room -= JSON.stringify(entry).length + 1
    if (room < 0) break
    found.push(entry)
  }
  for (let turn = 0; room > 0; turn++) {
    const before = room
    for (const entry of found) {
      const name = names.get(entry.account)?.[turn]
      if (name === undefined) continue
      room -= name.length + 3
      if (room < 0) break
      entry.names.push(name)
    }
    if (room === before) break
  }
  return { accounts: found, isCut: found.length < names.size }
}

const hostOf = (hostport: string): string => hostport.slice(0, hostport.lastIndexOf(':'))
