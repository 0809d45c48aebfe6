import {
  type EdgeRecord,
  type HttpsRecord,
  kindOf,
  type MutualTlsRecord,
  type RecordKey,
} from '../../distribution/records.ts'
import { mutualTlsDigest } from '../haproxy/maps/name_entries.ts'
import { createNameClaims } from './name_claims.ts'
import type { AskedOfClients } from './name_server.ts'

/** Tracks which names ask clients for certificates, from the records of HTTPS edges. */
export function createMutualEdges(known: ReadonlyMap<RecordKey, EdgeRecord>) {
  /** Includes wildcards. */
  const asking = createNameClaims<MutualTlsRecord>(known, hostsIn)
  /**
   * Exact names of edges that ask for nothing, which exempts them from an asking wildcard. Counted only while a wildcard
   * asks.
   */
  let exempt: Map<string, number> | undefined

  const isWildcardAsking = (): boolean => asking.names().some((name) => name.startsWith('*.'))

  function countExempt(): Map<string, number> {
    const counted = new Map<string, number>()
    for (const { key, value } of known.values())
      if (value !== null && kindOf(key) === 'https')
        for (const host of hostsIn(value as HttpsRecord)) counted.set(host, (counted.get(host) ?? 0) + 1)
    return counted
  }

  function askedBy(name: string): AskedOfClients | undefined {
    const value = asking.holder(name)?.value
    if (!value) return undefined
    return { mode: value.mode, authorities: value.authorities.join(''), settings: mutualTlsDigest(value) }
  }

  return {
    /** Reads the current record. Returns the affected names, or none while no edge asks for certificates. */
    update(key: RecordKey): Set<string> {
      const isAsking = kindOf(key) === 'mutual_tls'
      if (!isAsking && asking.isEmpty()) return new Set()
      // Counted again on demand: edges change seldom, and wildcards seldom ask.
      exempt = undefined
      if (isAsking) return asking.update(key)
      const value = known.get(key)?.value as HttpsRecord | null | undefined
      return new Set(value ? hostsIn(value) : [])
    },

    /** Finds the settings of a name in HAProxy's order: the exact name first, then the closest wildcard. */
    find(name: string): AskedOfClients | undefined {
      if (asking.isEmpty()) return undefined
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

    names: asking.names,
    isEmpty: asking.isEmpty,
  }
}
export type MutualEdges = ReturnType<typeof createMutualEdges>

const hostsIn = ({ hostports }: HttpsRecord): string[] => [
  ...new Set(hostports.map((hostport) => hostport.slice(0, hostport.lastIndexOf(':')))),
]
