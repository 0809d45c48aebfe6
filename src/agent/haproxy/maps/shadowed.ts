import type { ProxySettings } from '../settings.ts'
import type { Claims } from './claims.ts'
import type { Entry } from './entries.ts'

/** Why an entry was applied but is not in force, as the end of a sentence that begins with the record. */
export function whyShadowed(
  { tcpBind: { first, last } }: ProxySettings,
  claims: Claims,
  { map, key, value }: Entry,
): string | undefined {
  const port = key.slice(key.lastIndexOf(':') + 1)
  if (map === 'tcp' && (Number(port) < first || Number(port) > last))
    return `is not reached on port ${port}: this node listens on ports ${first} to ${last} (GATEHOUSE_TCP_PORTS)`
  // Does not name the holder, which may belong to another account.
  return claims.holder(map, key) === value ? undefined : reasons[map]?.(port)
}

const reasons: Partial<Record<Entry['map'], (port: string) => string>> = {
  tcp: (port) =>
    `is not reached on port ${port}, which an older edge has: a TCP client does not say which name it asked for`,
  route: () => 'is not reached, because an older route has the same path in another spelling',
}
