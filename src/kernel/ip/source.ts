import { type Address, parseAddress } from './address.ts'
import { type CompiledPolicy, lookup } from './ranges.ts'

/**
 * The source address of a request: the peer, unless it is a trusted proxy (an `allow` in `trusted`). Each proxy appends
 * its client's address to X-Forwarded-For, so the list is read from the right for as long as the entries are trusted
 * proxies. Entries that the client wrote itself are further left and never reached.
 *
 * Undefined, which is denied, if an entry on the way is not an address: the entries around it do not identify the
 * client.
 */
export function sourceAddress(
  peer: string | undefined,
  forwardedFor: readonly string[] | string | undefined,
  trusted: CompiledPolicy,
): Address | undefined {
  let source = peer === undefined ? undefined : parseAddress(withoutZone(peer))
  for (const entry of forwardedEntries(forwardedFor).reverse()) {
    if (source === undefined || lookup(trusted, source)?.action !== 'allow') return source
    source = parseAddress(withoutPadding(entry))
  }
  return source
}

/** Multiple header lines form one list (RFC 9110, 5.3). */
function forwardedEntries(forwardedFor: readonly string[] | string | undefined): string[] {
  if (forwardedFor === undefined) return []
  const lines = typeof forwardedFor === 'string' ? [forwardedFor] : forwardedFor
  return lines.flatMap((line) => line.split(','))
}

/**
 * For the peer only: there, the zone of a link-local address (fe80::1%eth0) is the interface from the kernel. In a
 * header it would be the client's text and is rejected.
 */
function withoutZone(peer: string): string {
  const percent = peer.indexOf('%')
  return percent < 0 ? peer : peer.slice(0, percent)
}

/**
 * HTTP allows only space and tab around a list entry; trim() removes more. Not a regular expression: /[ \t]+$/ takes
 * quadratic time on long runs of inner spaces.
 */
function withoutPadding(entry: string): string {
  const isPadding = (at: number) => entry[at] === ' ' || entry[at] === '\t'
  let start = 0
  let end = entry.length
  while (start < end && isPadding(start)) start++
  while (end > start && isPadding(end - 1)) end--
  return entry.slice(start, end)
}
