import { clientMayNotSend } from '../../../kernel/edge/client_headers.ts'
import { noteFailedRequest } from '../lines/request_lines.ts'
import { backendValue, timeoutsValue, withHeaders } from '../maps/codec.ts'
import { noWebsocket, withTimeouts } from '../maps/entries.ts'
import { mapFile, type ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'
import { clientAddress } from './client_address.ts'
import { forwardCertificate } from './mutual_tls.ts'
import { responseBackend, responses } from './responses.ts'
import { rewriteHost } from './route_rewrite.ts'
import { part, quoted } from './rules.ts'

/** Where requests are in flight. */
export const httpsBackends = [
  'https_plain',
  'https_plain_changed',
  'https_tls',
  'https_plain_careful',
  'https_tls_careful',
  'https_plain_http2',
  'https_tls_http2',
  responseBackend,
]

/** Many servers treat `_` in a header name as `-`, and some treat any other character as one. */
const inAnyDisguise = [
  ...clientMayNotSend.map((name) => name.replaceAll('-', '[^a-z0-9]').replace('*', '.*')),
  // Only the disguised forms of these two: the names themselves frame the request.
  'transfer[^a-z0-9-]encoding',
  'content[^a-z0-9-]length',
].join('|')

/** The headers that the edge sets about the client. */
const forward = (settings: ProxySettings) => `
  http-request add-header X-Forwarded-For ${clientAddress(settings)}
  http-request add-header X-Forwarded-Proto https
  http-request add-header X-Forwarded-Host %[req.fhdr(host)]
  http-request add-header X-Request-Id %[unique-id]`

/** A client could send in them what is removed from the headers. HAProxy adds no TCP backend at run time with this option. */
const dropTrailers = `
  option http-drop-request-trailers`

/** After fast_path.ts: of what clients may not send there are only these two, and nothing is in disguise. */
const forwardUnchanged = (settings: ProxySettings) => `${dropTrailers}
  http-request del-header connection
  http-request del-header te${forward(settings)}`
const forwardFast = (settings: ProxySettings) => `${forwardUnchanged(settings)}${rewriteHost}
  http-request del-headers-bin var(txn.headers_to_delete)
  http-request set-headers-bin var(txn.headers_to_set)`

/**
 * Hop-by-hop headers first, then what clients may not say about themselves, then what the route removes and adds.
 * Upgrade is hop-by-hop too, so it is set again for WebSockets, and an upstream sees a plain request instead of any other
 * upgrade. A name that is only known at run time can be added and deleted by Lua alone; `asked` spares it reading all
 * headers.
 */
export const forwardCareful = (settings: ProxySettings) => `${dropTrailers}
  acl upgrades req.fhdr(upgrade) -m found
  acl websocket var(txn.websocket) -m found
  acl websockets_off ${part('txn.entry', 'websocket')} -m str ${noWebsocket}
  http-request set-var(txn.websocket) bool(true) if METH_GET { req.hdr(connection) -m str -i upgrade } { req.fhdr_cnt(upgrade) eq 1 } { req.fhdr(upgrade) -m str -i websocket }
  http-request return ${answers.noWebsocket} if websocket websockets_off
  # RFC 8441 is a kind of CONNECT, and any 2xx accepts it: passed on as a plain request, it would seem to be open.
  http-request return ${answers.notAllowed} if upgrades !websocket { fc_http_major ge 2 }
  acl names_headers req.fhdr(connection) -m found
  acl names_none req.fhdr(connection) -m str -i close keep-alive
  http-request lua.hop_by_hop if names_headers !names_none
  http-request return ${answers.internal} if names_headers !names_none !{ var(txn.unhopped) -m found }
  http-request del-header '^(?:${inAnyDisguise})$' -m reg${forward(settings)}${forwardCertificate}${rewriteHost}
  http-request set-header Connection upgrade if websocket
  http-request set-header Upgrade websocket if websocket
  http-response return ${answers.badGateway} if { status 101 } !websocket
  acl has_headers ${part('txn.entry', 'headers')} -m str ${withHeaders}
  http-request set-var(txn.asked) req.hdr_names,concat(:,txn.entry) if has_headers
  http-request lua.headers if { var(txn.asked) -m found }
  http-request return ${answers.internal} if has_headers !{ var(txn.rewritten) -m found }`

/** `TE: trailers` is about this connection too, and gRPC servers want to see it on theirs. HTTP/2 allows no other TE. */
export const withTrailers = (rules: string) => `
  http-request set-var(txn.trailers) bool(true) if { req.hdr(te) -m str -i trailers }${rules}
  http-request set-header TE trailers if { var(txn.trailers) -m found }`

/**
 * A route's own timeouts, from a map: a longer default would let the dead upstreams of every tenant hold connections longer.
 * Until the response begins, `server` waits for it; from then on it is the silence that counts.
 */
export const waiting = (settings: ProxySettings) => `
  acl has_timeouts var(txn.timeouts) -m found
  http-request set-var(txn.timeouts) ${part('txn.entry', 'target')},map_str(${mapFile(settings, 'timeouts')}) if { ${part('txn.entry', 'timeouts')} -m str ${withTimeouts} }
  http-request set-timeout connect var(txn.timeouts),${timeoutsValue.field('connect')} if has_timeouts
  http-request set-timeout server var(txn.timeouts),${timeoutsValue.field('response')} if has_timeouts
  http-request set-timeout tunnel var(txn.timeouts),${timeoutsValue.field('tunnel')} if has_timeouts
  http-response set-timeout server var(txn.timeouts),${timeoutsValue.field('idle')} if has_timeouts`

/** Without a name to verify HAProxy would verify none. */
const verifiedName = (rule: string, refusal: string) => `
  ${rule} set-var(txn.name) var(txn.backend),${backendValue.field('host')}
  ${rule} ${refusal} if !{ var(txn.name) -m len ge 1 }`

/**
 * No request is sent twice unless its method is idempotent. HAProxy tells a client to repeat what failed on a kept
 * connection, even with other methods, so those get a connection of their own, and 502 when it fails. A refused
 * connection is not tried again: there is one upstream, and it has answered. See docs/adr/0040.
 */
const servers = (settings: ProxySettings, options = '') => `${waiting(settings)}${dialedServers(options)}`
const dialedServers = (options = '') => `${noteFailedRequest}
  retries 1
  retry-on empty-response
  acl idempotent method GET HEAD PUT DELETE OPTIONS
  http-request disable-l7-retry unless idempotent
  use-server once unless idempotent
  server dyn 0.0.0.0:0${options}
  server once 0.0.0.0:0 weight 0 max-reuse 0 pool-max-conn 0${options}`

const verifiedForTcp = verifiedName('tcp-request content', 'reject')
const tcpBackend = (name: string, rules = '', options = ''): string => `backend ${name}
  mode tcp
  retries 0
  timeout server 1h${rules}
  server dyn 0.0.0.0:0${options}
`

/**
 * The name asked for is also the one verified, since no verifyhost is given. Without resumption, because a resumed
 * session is not verified again, and all upstreams share one server line here.
 */
export const backends = (settings: ProxySettings) => {
  const tls = `ssl verify required ca-file ${quoted(settings.caFile)} sni var(txn.name) no-ssl-reuse`
  const verified = verifiedName('http-request', `return ${answers.unavailable}`)
  return `${tcpBackend('tcp_plain')}
${tcpBackend('tcp_plain_proxy', '', ' send-proxy-v2')}
${tcpBackend('tcp_tls', verifiedForTcp, ` ${tls}`)}
${tcpBackend('tcp_tls_proxy', verifiedForTcp, ` ${tls} send-proxy-v2`)}
# For most requests: neither headers, host and path nor timeouts are the route's.
backend https_plain
  mode http${forwardUnchanged(settings)}${dialedServers()}

backend https_plain_changed
  mode http${forwardFast(settings)}${servers(settings)}

backend https_tls
  mode http${verified}${forwardFast(settings)}${servers(settings, ` ${tls}`)}

backend https_plain_careful
  mode http${forwardCareful(settings)}${servers(settings)}

backend https_tls_careful
  mode http${verified}${forwardCareful(settings)}${servers(settings, ` ${tls}`)}

backend https_plain_http2
  mode http${withTrailers(forwardCareful(settings))}${servers(settings, ' proto h2')}

backend https_tls_http2
  mode http${verified}${withTrailers(forwardCareful(settings))}${servers(settings, ` ${tls} proto h2 alpn h2`)}

${responses}`
}
