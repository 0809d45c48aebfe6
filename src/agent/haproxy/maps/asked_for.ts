import type { Claims } from './claims.ts'
import { asksForCertificate, mutualTlsValue, wildcardKey } from './name_entries.ts'

/** The mutual TLS settings of a name in the maps. Undefined if the name does not ask clients for certificates. */
export function askedFor(claims: Pick<Claims, 'holder'>, name: string): string | undefined {
  const edge = edgeOf(claims, name)
  if (!edge?.startsWith(asksForCertificate)) return undefined
  const value = claims.holder('mutual_tls', edge.slice(asksForCertificate.length))
  return value && mutualTlsValue.parse(value).settings
}

/** Same order as HAProxy: the exact name first, then the closest wildcard. */
function edgeOf(claims: Pick<Claims, 'holder'>, name: string): string | undefined {
  if (!name.startsWith('*.')) {
    const exact = claims.holder('host', name)
    if (exact) return exact
  }
  for (let at = name.indexOf('.'); at >= 0; at = name.indexOf('.', at + 1)) {
    const found = claims.holder('wildcard', wildcardKey(`*${name.slice(at)}`))
    if (found) return found
  }
  return undefined
}
