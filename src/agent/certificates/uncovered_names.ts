import type { EdgeRecord, HttpsRecord, RecordKey } from '../../distribution/records.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { NameServer } from './name_server.ts'

/** A pass over all names of a large node takes a while, and a burst of changes should not repeat it for each. */
const lookAgainMs = 2_000
const maxShown = 20

export type UncoveredNames = { missing: number; missingNames: readonly string[] }

/**
 * Names of HTTPS edges for which the node has no certificate, neither of an account nor in the operator's folder. Clients of
 * these names get a TLS alert.
 */
export function createUncoveredNames(
  known: ReadonlyMap<RecordKey, EdgeRecord>,
  names: Pick<NameServer, 'taken' | 'served'>,
  clock: Clock,
) {
  const hosts = new Map<RecordKey, readonly string[]>()
  let isCurrent = false
  let lookedAt = Number.NEGATIVE_INFINITY
  let taken = names.taken()
  let found: UncoveredNames = { missing: 0, missingNames: [] }

  function isCovered(name: string): boolean {
    const wildcard = `*${name.slice(name.indexOf('.'))}`
    const served = names.served()
    if (taken.has(name) || taken.has(wildcard) || served.has(name)) return true
    return served.has(wildcard) && !served.get(wildcard)?.except.includes(name)
  }

  function look(): UncoveredNames {
    const missing = new Set<string>()
    for (const each of hosts.values()) for (const name of each) if (!isCovered(name)) missing.add(name)
    return { missing: missing.size, missingNames: [...missing].slice(0, maxShown) }
  }

  return {
    /** What is served for names has changed. */
    servedChanged(): void {
      isCurrent = false
    },
    /** An HTTPS edge has changed, and may have other names. */
    note(key: RecordKey): void {
      isCurrent = false
      const value = known.get(key)?.value as HttpsRecord | null | undefined
      if (value) hosts.set(key, [...new Set(value.hostports.map(hostOf))])
      else hosts.delete(key)
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

const hostOf = (hostport: string): string => hostport.slice(0, hostport.lastIndexOf(':'))
