import { type Address, parseAddress } from './address.ts'
import { type CompiledPolicy, lookup } from './ranges.ts'

/**
 * The source address of a request: that of the connection, unless that is one of the operator's proxies (an `allow` in
 * `trusted`). Each proxy appends the address it was called from to X-Forwarded-For, so the list is believed from the
 * right, and only as far as proxies vouch for it; what a client wrote itself stands further left, and is not reached.
 *
 * Undefined, which is denied, when an entry on that way is not an address: the entries around it say nothing about
 * who the client is.
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

/** Several header lines are one list (RFC 9110, 5.3). */
function forwardedEntries(forwardedFor: readonly string[] | string | undefined): string[] {
  if (forwardedFor === undefined) return []
  const lines = typeof forwardedFor === 'string' ? [forwardedFor] : forwardedFor
  return lines.flatMap((line) => line.split(','))
}

/**
 * For the peer only. There the zone of a link-local address (fe80::1%eth0) is the kernel's own note of the interface;
 * in a header it would be the client's text, and is refused like any other garbage.
 */
function withoutZone(peer: string): string {
  const percent = peer.indexOf('%')
  return percent < 0 ? peer : peer.slice(0, percent)
}

/**
 * Space and tab are all that HTTP lets stand around a list entry; trim() would take more. Not a regular expression:
 * /[ \t]+$/ takes quadratic time on an entry with a long run of spaces inside.
 */
function withoutPadding(entry: string): string {
  const isPadding = (at: number) => entry[at] === ' ' || entry[at] === '\t'
  let start = 0
  let end = entry.length
  while (start < end && isPadding(start)) start++
  while (end > start && isPadding(end - 1)) end--
  return entry.slice(start, end)
}
