import type { EdgeRequest } from '../../distribution/requests.ts'
import { formatAddress, parseAddress } from '../../kernel/ip/address.ts'

export type LoggedRequest = EdgeRequest & {
  /** The process id of HAProxy, which numbers the lines that it writes. */
  readonly process: number
  readonly sequence: number
}
export type FieldValue = string | number
export type Field = {
  readonly name: string
  readonly meaning: string
  /** Null or undefined omits the field from the line. */
  readonly of: (request: LoggedRequest) => FieldValue | null | undefined
}

const field = (name: string, meaning: string, of: Field['of']): Field => ({ name, meaning, of })
const versions = { tcp: undefined, 'http/1.0': '1.0', 'http/1.1': '1.1', h2: '2', h3: '3' } as const
const upstreamPattern = /^\[?(.+?)\]?:(\d+)$/
const upstream = (request: LoggedRequest, part: 1 | 2) =>
  request.upstream && upstreamPattern.exec(request.upstream)?.[part]

/**
 * The fields of an access log line, in order. Names follow the OpenTelemetry semantic conventions where these define
 * one, and start with `gatehouse.` otherwise. docs/guides/access-log.md has the same table. No field holds a header, a
 * body or a query.
 */
export const accessLogFields: readonly Field[] = [
  field('timestamp', 'when the request or connection arrived, RFC 3339 in UTC', ({ at }) => at),
  field('gatehouse.request.id', "a UUIDv7, the request's `X-Request-Id`", ({ id }) => id),
  field('trace_id', "trace id from the request's `traceparent` header, if that was valid", ({ trace }) => trace),
  field('gatehouse.outcome', '`allowed`, `refused`, `warned`, `limited` or `failed`', ({ outcome }) => outcome),
  field('gatehouse.reason', 'why it was refused, limited or failed; see below', ({ reason }) => reason),
  field('client.address', "the client's address, truncated if so configured", ({ source }) => source),
  field('network.protocol.name', '`http` or `tcp`', ({ protocol }) => (protocol === 'tcp' ? 'tcp' : 'http')),
  field('network.protocol.version', '`1.0`, `1.1`, `2` or `3`; not for TCP', ({ protocol }) => versions[protocol]),
  field('http.request.method', 'method of the request; not for TCP', ({ method }) => method),
  field('server.address', 'the `Host` or `:authority`; not for TCP', ({ host }) => host),
  field(
    'url.path',
    'path as the client sent it, without the query, at most 1,024 characters; not for TCP',
    ({ path }) => path,
  ),
  field(
    'http.response.status_code',
    'status of the response; missing if there was none; not for TCP',
    ({ status }) => status,
  ),
  field(
    'gatehouse.duration_ms',
    'time from the first byte of the request or connection to the last',
    (request) => request.durationMs,
  ),
  field('gatehouse.bytes_in', 'bytes from the client, as HAProxy counts them', ({ bytesIn }) => bytesIn),
  field('gatehouse.bytes_out', 'bytes to the client, as HAProxy counts them', ({ bytesOut }) => bytesOut),
  field('gatehouse.upstream.address', 'address of the upstream that was dialed', (request) => upstream(request, 1)),
  field(
    'gatehouse.upstream.port',
    'port of the upstream that was dialed',
    (request) => Number(upstream(request, 2)) || null,
  ),
  field('gatehouse.account', 'account that owns the edge; missing if no route of it matched', ({ account }) => account),
  field('gatehouse.edge', 'HTTPS or TCP edge', ({ edge }) => edge),
  field(
    'gatehouse.route',
    'route of the HTTPS edge; if another spelling of the path was refused, the route that refused it',
    ({ route }) => route,
  ),
  field(
    'gatehouse.restriction',
    "the account's restriction that refused, warned or allowed",
    ({ restriction }) => restriction,
  ),
  field(
    'gatehouse.policy',
    'the IP policy that decided; if no rule matched, only where a single policy is attached',
    ({ policy }) => policy,
  ),
  field(
    'gatehouse.rule',
    'the rule that decided; missing if the address was refused because no rule allowed it',
    ({ rule }) => rule,
  ),
  field(
    'gatehouse.generation',
    'generation in force on the node when the request or connection arrived',
    ({ generation }) => generation,
  ),
  field('gatehouse.node', 'name of the edge node', ({ node }) => node),
  field('process.pid', "process id of HAProxy's worker", (request) => request.process),
  field(
    'gatehouse.sequence',
    'number of the request or, counted separately, of the TCP connection in that worker; a gap is a line that was lost or not sampled',
    ({ sequence }) => sequence,
  ),
]

export type LogRecord = Record<string, FieldValue>
export function recordOf(request: LoggedRequest): LogRecord {
  const record: LogRecord = {}
  for (const { name, of } of accessLogFields) {
    const value = of(request)
    if (value !== null && value !== undefined) record[name] = value
  }
  return record
}

/** Replaces an address by the network of its household or office: /24, or /48 for IPv6. */
export function truncated(source: string): string {
  if (!source.includes(':')) return source.replace(/\d+$/, '0')
  const address = parseAddress(`${expanded(source).slice(0, 3).join(':')}::`)
  return address ? formatAddress(address) : '::'
}
function expanded(source: string): string[] {
  const [head = '', tail] = source.split('::')
  const groups = (text = ''): string[] => (text === '' ? [] : text.split(':'))
  const [before, after] = [groups(head), groups(tail)]
  if (tail === undefined) return before
  return [...before, ...Array<string>(8 - before.length - after.length).fill('0'), ...after]
}
