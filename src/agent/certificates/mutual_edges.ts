import {
  type EdgeRecord,
  type HttpsRecord,
  kindOf,
  type MutualTlsRecord,
  type RecordKey,
} from '../../distribution/records.ts'
import { mutualTlsDigest } from '../haproxy/maps/name_entries.ts'
import type { AskedOfClients } from './name_server.ts'

/** Which names ask clients for certificates, from the records of HTTPS edges. */
export function createMutualEdges(known: ReadonlyMap<RecordKey, EdgeRecord>) {
  const hostsOf = new Map<RecordKey, readonly string[]>()
  /** By name, wildcards included. Two records have one for a moment when a name moves from one edge to another. */
  const asking = new Map<string, Set<RecordKey>>()
  /** Exact names of edges that ask for nothing, known only while a wildcard asks: they are exempt from it. */
  let exempt: Map<string, number> | undefined

  const isWildcardAsking = (): boolean => asking.keys().some((name) => name.startsWith('*.'))

  function countExempt(): Map<string, number> {
    const counted = new Map<string, number>()
    for (const { key, value } of known.values())
      if (value !== null && kindOf(key) === 'https')
        for (const host of hostsIn(value as HttpsRecord)) counted.set(host, (counted.get(host) ?? 0) + 1)
    return counted
  }

  function askedBy(name: string): AskedOfClients | undefined {
    let newest: EdgeRecord | undefined
    for (const key of asking.get(name) ?? []) {
      const record = known.get(key)
      if (record?.value && (!newest || record.generation > newest.generation)) newest = record
    }
    if (!newest) return undefined
    const value = newest.value as MutualTlsRecord
    return { mode: value.mode, authorities: value.authorities.join(''), settings: mutualTlsDigest(value) }
  }

  return {
    /** Takes in a record as it is now. Returns the names that it has, or had; none while no edge asks for certificates. */
    update(key: RecordKey): Set<string> {
      const value = known.get(key)?.value as HttpsRecord | null | undefined
      const after = value ? hostsIn(value) : []
      if (kindOf(key) === 'https') {
        if (asking.size === 0) return new Set()
        // An edge changes seldom, and a wildcard asks seldom.
        exempt = undefined
        return new Set(after)
      }
      const before = hostsOf.get(key) ?? []
      for (const name of before) {
        asking.get(name)?.delete(key)
        if (asking.get(name)?.size === 0) asking.delete(name)
      }
      for (const name of after) asking.set(name, (asking.get(name) ?? new Set()).add(key))
      if (after.length) hostsOf.set(key, after)
      else hostsOf.delete(key)
      exempt = undefined
      return new Set([...before, ...after])
    },

    /** What clients of a name are asked for, as the proxy looks it up: an exact name first, then the closest wildcard. */
    find(name: string): AskedOfClients | undefined {
      if (asking.size === 0) return undefined
      const exact = askedBy(name)
      if (exact || !isWildcardAsking()) return exact
      exempt ??= countExempt()
      if (exempt.has(name)) return undefined
      for (let at = name.indexOf('.', name.startsWith('*.') ? 2 : 0); at >= 0; at = name.indexOf('.', at + 1)) {
        const wildcard = `*${name.slice(at)}`
        if (exempt.has(wildcard)) return undefined
        const found = askedBy(wildcard)
        if (found) return found
      }
      return undefined
    },

    names: (): Iterable<string> => asking.keys(),
    isEmpty: (): boolean => asking.size === 0,
  }
}
export type MutualEdges = ReturnType<typeof createMutualEdges>

const hostsIn = ({ hostports }: HttpsRecord): string[] => [
  ...new Set(hostports.map((hostport) => hostport.slice(0, hostport.lastIndexOf(':')))),
]
