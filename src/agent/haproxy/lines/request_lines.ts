import { createHash } from 'node:crypto'
import { idLength } from '../../../kernel/ids.ts'
import { type EntryVariable, kindOf, plainPath, quoted } from '../config/rules.ts'
import { placeOf } from '../maps/codec.ts'
import { lineSocket, mapFile, type ProxySettings } from '../settings.ts'

/**
 * HAProxy writes a line for each request and connection into a ring, and the agent reads the ring over a socket. Every
 * request pays for its line, so a line is not JSON: its length, then values separated by tabs, which HAProxy never
 * leaves in a value. Without a reader, the ring keeps the oldest lines, counts those that do not fit, and delays no
 * request. See docs/adr/0054.
 */
const ring = (settings: ProxySettings, name: string, lineBytes: number, bytes: number) => `ring ${name}
  format raw
  maxlen ${lineBytes}
  size ${bytes}
  timeout connect 1s
  timeout server 10s
  server agent ${quoted(`unix@${plainPath(lineSocket(settings))}`)} log-proto octet-count
`
/** HAProxy's messages about itself have their own ring, so that a flood of requests cannot displace them. */
export const rings = (settings: ProxySettings): string =>
  `${ring(settings, 'requests', maxLineBytes, 8 << 20)}\n${ring(settings, 'events', 1_024, 256 << 10)}`
export const maxLineBytes = 8_192

/** Identifies the configuration that a line was written under, because a rule is known by its line number. */
const editionMark = '@edition@'
export function withEdition(config: string): { config: string; edition: string } {
  const edition = createHash('sha256').update(config).digest('hex').slice(0, 8)
  return { config: config.replaceAll(editionMark, edition), edition }
}

/** Limits for a path and a host, before HAProxy escapes special characters with three characters each. */
const pathBytes = 1_024
const hostBytes = 255

/** The value up to its first policy. The decision names every policy unless there is only one; there may be many. */
const entryHead = (entry: EntryVariable): string => {
  const { from } = placeOf('policies', kindOf(entry))
  return `%[var(${entry}),bytes(0,${from + idLength('ipp')})]`
}

/**
 * Fields of every line, after its kind, edition, process and number. For lines before a request is known, and at the
 * end.
 */
const early = {
  ...{ id: '%[uuid(7)]', at: '%[accept_date(ms)]', source: '%[src]', duration: '0', bytesIn: '0', bytesOut: '0' },
  ...{ state: '--', rule: '-', address: '-', port: '-', decision: '-', over: '-', fault: '-', entry: '-' },
}
type Common = typeof early
/** With %U, HAProxy logs at the end of a request; without it, it would log when the response begins. */
const ended: Common = {
  ...{ id: '%[unique-id]', at: '%[request_date(ms)]', source: '%[src]', duration: '%Ta' },
  ...{ bytesIn: '%U', bytesOut: '%[res.bytes_out]', state: '%ts', rule: '%[last_rule_line]' },
  ...{ address: '%si', port: '%sp', decision: '%[var(txn.decision)]', over: '%[var(txn.over)]' },
  ...{ fault: '%[var(txn.fault)]', entry: entryHead('txn.entry') },
}
/** Additional fields of requests. The path is last, because a line that is too long is cut at its end. */
const ofRequests = {
  ...{ edge: '%[var(txn.edge)]', status: '%ST', major: '%[fc_http_major]', version: '%[capture.req.ver]' },
  ...{ method: '%HM', trace: '%[var(txn.trace)]', host: `%[var(txn.asked_host),bytes(0,${hostBytes})]` },
  path: `%[var(txn.asked_path),bytes(0,${pathBytes})]`,
}
/** Field order, as read_line.ts parses it. */
export const commonFields = ['kind', 'edition', 'process', 'sequence', ...keysOf(early)] as const
export const requestFields = keysOf(ofRequests)

const format = (kind: LineKind, common: Common, more: Record<string, string> = {}): string =>
  `"${[lineKinds[kind], editionMark, '%pid', '%lc', ...commonInOrder(common), ...Object.values(more)].join('\t')}"`
const commonInOrder = (common: Common): string[] => keysOf(early).map((name) => common[name])
function keysOf<Of extends object>(of: Of): (keyof Of & string)[] {
  return Object.keys(of) as (keyof Of & string)[]
}

/** The first field of a line. */
export const lineKinds = {
  /** A finished HTTPS request, or one over plain HTTP. */
  request: 'H',
  /** A finished TCP connection. */
  connection: 'T',
  /** HAProxy could not parse a request. */
  unreadable: 'E',
  /** A connection over a limit, closed before anything was read. */
  limited: 'L',
  /** A request or connection that passed with warnings. Logged at the decision, because it may last for days. */
  warned: 'W',
} as const
export type LineKind = keyof typeof lineKinds

const toRing = 'log ring@requests len 8192 format raw profile requests local0'

/** Formats of lines that are written before the end. */
export const earlyLines = (() => {
  const over = { ...early, over: '%[var(sess.over)]', entry: entryHead('sess.entry') }
  const warned = { ...early, id: '%[unique-id]', decision: '%[var(txn.decision)]' }
  return `log-profile requests
  on tcp-req-conn format ${format('limited', over)}
  on tcp-req-sess format ${format('limited', over)}
  on tcp-req-cont format ${format('warned', { ...warned, entry: entryHead('sess.entry') })}
  on http-req format ${format('warned', { ...warned, entry: entryHead('txn.entry') })}
`
})()

/**
 * A failed handshake has no request. `decision` and `over` hold the edge of the requested name, found as an exact name
 * and under a wildcard, and the edge's mutual TLS settings.
 */
const handshake = (settings: ProxySettings): Common => {
  const edgeBy = (lookUp: string) => {
    const edge = `ssl_fc_sni,lower,${lookUp}`
    return `%[${edge}]|%[${edge},bytes(1),map_str(${mapFile(settings, 'mutual_tls')})]`
  }
  return {
    ...{ ...early, state: '%ts', address: `%[ssl_fc_sni,lower,bytes(0,${hostBytes})]` },
    fault: '%[fc_err]|%[ssl_c_err]|%[ssl_c_ca_err]|%[ssl_fc_err_str]',
    decision: edgeBy(`map_str(${mapFile(settings, 'host')})`),
    over: edgeBy(`lua.reverse,map_beg(${mapFile(settings, 'wildcard')})`),
  }
}

/** `dontlognull`: a connection that sends nothing is not a request. */
export const logRequests = (settings: ProxySettings): string => `
  ${toRing}
  option dontlognull
  log-format ${format('request', ended, ofRequests)}
  error-log-format ${format('unreadable', handshake(settings))}
  # Before anything is answered, and as the client has sent it.
  http-request set-var(txn.asked_host) req.fhdr(host)
  http-request set-var(txn.asked_path) path
  http-request set-var(txn.trace) req.fhdr(traceparent),bytes(0,56)
  http-after-response set-header X-Request-Id %[unique-id]${onlyExceptions(settings, '\n  http-after-response set-log-level silent if { status lt 400 } !{ var(txn.decision) -m sub ? }')}`

export const logConnections = (settings: ProxySettings): string => `
  unique-id-format %[uuid(7)]
  ${toRing}${onlyExceptions(settings, '\n  option dontlog-normal')}
  log-format ${format('connection', {
    ...ended,
    at: '%[accept_date(ms)]',
    duration: '%Tt',
    fault: '%[bc_err_name]|%[ssl_bc_err_str]|%[var(txn.backend)]',
    entry: entryHead('sess.entry'),
  })}`

const onlyExceptions = ({ requestLines = 'all' }: ProxySettings, rules: string): string =>
  requestLines === 'exceptions' ? rules : ''

/**
 * Successful requests pay for one look at their status. The termination state separates the edge's own responses: S and
 * s mean that the upstream failed, P that its response is invalid.
 */
export const noteFailedRequest = `
  http-after-response set-var-fmt(txn.fault) "%[bc_err_name]|%[ssl_bc_err_str]|%[var(txn.backend)]" if { status 502 503 504 } { txn.sess_term_state -m beg S s P }`
