import { parseHostport } from './hostport.ts'

/** Replaces the path and the Host header that the upstream sees. Null leaves them unchanged. */
export type Rewrite = { strip_prefix: string | null; add_prefix: string | null; host: string | null }

export const rewriteLimits = { prefixBytes: 512, hostBytes: 255 } as const

/** Excludes encoding, and everything that servers interpret differently: dot segments, empty segments, parameters. */
const prefix = /^(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9\-._~!$&'()*+,:=@]+)+$/

/** The invalid field and the reason. */
export function rewriteFault({
  strip_prefix,
  add_prefix,
  host,
}: Rewrite): { place: string; fault: string } | undefined {
  for (const [place, text] of Object.entries({ strip_prefix, add_prefix })) {
    if (text !== null && (text.length > rewriteLimits.prefixBytes || !prefix.test(text)))
      return {
        place,
        fault: `must be a path such as /api, of at most ${rewriteLimits.prefixBytes} bytes, without a slash at the end, empty or dot segments, and characters that are percent-encoded`,
      }
  }
  if (host !== null && (host.length > rewriteLimits.hostBytes || !isHost(host)))
    return { place: 'host', fault: 'must be a host name or an IP address, with an optional port' }
  if (strip_prefix === null && add_prefix === null && host === null)
    return { place: 'strip_prefix', fault: 'must be set unless add_prefix or host is' }
  return undefined
}

const isHost = (text: string): boolean =>
  [text, `${text}:1`].some((hostport) => typeof parseHostport(hostport) !== 'string')
