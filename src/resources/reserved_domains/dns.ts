import { Resolver } from 'node:dns/promises'
import type { TxtAnswer } from '../../http/domains.ts'

const timeoutMs = 3_000
const tries = 2
/** A name with more records was not set up for verification. */
const maxValues = 100

/** Error codes of c-ares, and whether DNS answered. */
const faults: Record<string, { fault: string; answered: boolean }> = {
  ENOTFOUND: { fault: 'does not exist (NXDOMAIN)', answered: true },
  ENODATA: { fault: 'does not exist: the name has records, but none of type TXT', answered: true },
  ESERVFAIL: { fault: 'could not be looked up: a name server of the domain failed (SERVFAIL)', answered: false },
  EREFUSED: { fault: 'could not be looked up: the DNS server refused the question', answered: false },
  ETIMEOUT: { fault: 'could not be looked up: no DNS server answered in time', answered: false },
  ECONNREFUSED: { fault: 'could not be looked up: no DNS server could be reached', answered: false },
}

/** Without `servers`, uses those of the system. The server must be recursive: it follows CNAMEs and delegations. */
export function createTxtLookup(servers: readonly string[]): (name: string) => Promise<TxtAnswer> {
  return async (name) => {
    // One resolver per query, so that a late answer to an earlier query cannot be mistaken for this one.
    const resolver = new Resolver({ timeout: timeoutMs, tries })
    if (servers.length > 0) resolver.setServers(servers)
    try {
      const records = await resolver.resolveTxt(name)
      return { values: records.slice(0, maxValues).map((pieces) => pieces.join('')) }
    } catch (error) {
      const { code = '' } = error as { code?: string }
      return faults[code] ?? { fault: `could not be looked up (${code || 'unknown error'})`, answered: false }
    }
  }
}
