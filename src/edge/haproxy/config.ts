import { fileURLToPath } from 'node:url'
import { mapFile } from './map_files.ts'
import { loadedCertificateFolder, type ProxySettings } from './settings.ts'

/** Shipped beside this file, as it is. */
export const luaFile = fileURLToPath(new URL('gatehouse.lua', import.meta.url))

/**
 * The whole configuration. It depends on the operator's settings alone: what tenants write is only ever in map values
 * and policy files, so that no tenant can break or bend it, and a change never needs a reload.
 */
export function renderConfig(settings: ProxySettings): string {
  return [global(settings), defaults, tcpFrontend(settings), httpsFrontend(settings), backends(settings)].join('\n')
}

/** Stands in a quoted string, and in the argument of a converter: nothing that either could read as its own. */
function quoted(path: string): string {
  if (!/^[\w./@:+~-]+$/.test(path)) throw new Error(`HAProxy cannot be given a path like ${JSON.stringify(path)}`)
  return `"${path}"`
}

const global = (settings: ProxySettings) => `# Written by Gatehouse; changes by hand are lost.
global
  nbthread ${settings.threads}
  maxconn ${settings.maxconn}
  # With fewer file descriptors than that, serve as many as there are: a low limit must not keep the node down.
  no strict-limits
  stats socket ${quoted(settings.runtimeSocket)} mode 600 level admin expose-fd listeners
  stats timeout 1m
  setenv GATEHOUSE_FOLDER ${quoted(settings.folder)}
  setenv GATEHOUSE_POLICY_CACHE_BYTES ${settings.policyCacheBytes ?? 64 * 1024 * 1024}
  lua-load-per-thread ${quoted(luaFile)}
  # Only Lua logs, and only refusals and warnings: no frontend has a log of its own.
  log 127.0.0.1:${settings.eventPort} len 1024 format raw local0
  # Half a buffer stays free for headers that a route adds; entries.ts refuses what would not fit.
  tune.bufsize 32768
  tune.maxrewrite 16384
  ssl-default-bind-options ssl-min-ver TLSv1.2
  ssl-default-server-options ssl-min-ver TLSv1.2
  # normalize-uri is complete in 2.6, but not yet declared stable.
  expose-experimental-directives
`

const errorBody = (status: number, code: string, msg: string): string =>
  JSON.stringify({ error_code: code, status_code: status, msg, details: {} })
const answer = (status: number, code: string, msg: string): string =>
  `status ${status} content-type application/json string '${errorBody(status, code, msg)}'`
const answers = {
  badRequest: answer(400, 'ERR_BAD_REQUEST', 'The request is not valid HTTP.'),
  refused: answer(403, 'ERR_IP_REFUSED', 'Requests from this address are refused.'),
  notFound: answer(404, 'ERR_NO_ROUTE', 'Nothing is served under this host and path.'),
  timeout: answer(408, 'ERR_REQUEST_TIMEOUT', 'The request took too long to arrive.'),
  internal: answer(500, 'ERR_EDGE', 'The edge could not handle the request.'),
  badGateway: answer(502, 'ERR_BAD_GATEWAY', 'The upstream gave no valid answer.'),
  unavailable: answer(503, 'ERR_NO_BACKEND', 'No upstream can be reached for this route.'),
  gatewayTimeout: answer(504, 'ERR_GATEWAY_TIMEOUT', 'The upstream took too long to answer.'),
}

const defaults = `defaults
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout http-request 10s
  timeout http-keep-alive 60s
  option clitcpka
  option srvtcpka
${[
  answers.badRequest,
  answers.timeout,
  answers.internal,
  answers.badGateway,
  answers.unavailable,
  answers.gatewayTimeout,
]
  .map((each) => `  http-error ${each}\n`)
  .join('')}`

/** A map entry of an edge or route: target|account|backend|open or policies|headers. See entries.ts. */
const field = { account: 'field(2,|)', backend: 'field(3,|)', policies: 'field(4,|)', headers: 'field(5,|)' }

/**
 * The same decision for a connection and a request, in HAProxy's two dialects. `open` is the only word that lets
 * anything through: a policy list, nothing at all, or a converter that failed are all refused.
 */
const decision = (settings: ProxySettings, rule: string) => `
  ${rule} set-var(txn.verdict) var(txn.entry),${field.policies} if !{ var(txn.entry),${field.account},map_str(${mapFile(settings, 'restrictions')}) -m found }
  ${rule} set-var(txn.verdict) src,hex,concat(|,txn.entry),lua.decide if !{ var(txn.verdict) -m str open }`

/** `ipmask` for its result's type: what is not an address leaves no variable behind, and the way is shut. */
const upstream = (settings: ProxySettings, rule: string) => `
  ${rule} set-var(txn.backend) var(txn.entry),${field.backend},map_str(${mapFile(settings, 'backend')})
  ${rule} set-var(txn.address) var(txn.backend),field(2,|),ipmask(32,128)
  ${rule} set-var(txn.name) var(txn.backend),field(4,|) if { var(txn.backend) -m beg tls }`
const dial = (rule: string) => `
  ${rule} set-dst var(txn.address)
  ${rule} set-dst-port var(txn.backend),field(3,|)`
/** Without a name to verify HAProxy would verify none. */
const unreachable = [
  '!{ var(txn.address) -m found }',
  '{ var(txn.backend) -m beg tls } !{ var(txn.name) -m len ge 1 }',
].join(' || ')

/** v6only: an IPv4 client on an IPv6 socket would appear as a mapped address, and its edge under another key. */
const listen = (address: string, port: string): string =>
  address.includes(':') ? `[${address}]:${port} v6only` : `${address}:${port}`

const tcpFrontend = (settings: ProxySettings) => `frontend tcp
  mode tcp
${settings.tcpBind.addresses.map((address) => `  bind ${listen(address, `${settings.tcpBind.first}-${settings.tcpBind.last}`)}\n`).join('')}  timeout client 1h
  # Unknown destinations are closed before anything is allocated for them.
  tcp-request connection set-var-fmt(sess.at) "%[dst]:%[dst_port]"
  tcp-request connection set-var(sess.entry) var(sess.at),map_str(${mapFile(settings, 'tcp')})
  tcp-request connection set-var-fmt(sess.at) "*:%[dst_port]" if !{ var(sess.entry) -m found }
  tcp-request connection set-var(sess.entry) var(sess.at),map_str(${mapFile(settings, 'tcp')}) if !{ var(sess.entry) -m found }
  tcp-request connection reject if !{ var(sess.entry) -m found }
  # Lua needs a stream, which begins here; no upstream has been dialled yet.
  tcp-request content set-var(txn.entry) var(sess.entry)${decision(settings, 'tcp-request content')}
  tcp-request content reject if !{ var(txn.verdict) -m str open }${upstream(settings, 'tcp-request content')}
  tcp-request content reject if ${unreachable}${dial('tcp-request content')}
  use_backend tcp_tls if { var(txn.backend) -m beg tls }
  default_backend tcp_plain
`

/** Matched against lower-case names, whatever stands for the hyphens. */
const clientMayNotSend = [
  'connection',
  'keep-alive',
  'proxy-.*',
  'te',
  'trailer',
  'upgrade',
  'x-forwarded-.*',
  'forwarded',
  'x-real-ip',
].map((name) => name.replaceAll('-', '[^a-z0-9]'))

/** Anything but the characters that paths.ts leaves alone, or a doubled slash. */
const unusualPath = '[^A-Za-z0-9\\-._~!$&\\x27()*+,:;=@/]|//'

const httpsFrontend = (settings: ProxySettings) => `frontend https
  mode http
${settings.httpsBind.map((at) => `  bind ${at}${at.startsWith('[') ? ' v6only' : ''} ssl crt ${quoted(loadedCertificateFolder(settings))} strict-sni alpn h2,http/1.1\n`).join('')}
  # HAProxy refuses CR and LF in a value, and lets the other controls pass, which servers read differently.
  http-request return ${answers.badRequest} if { req.hdrs -m reg '[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]' }

  # Host → edge.
  http-request set-var(txn.edge) req.fhdr(host),host_only,lower,map_str(${mapFile(settings, 'host')})
  http-request set-var(txn.edge) req.fhdr(host),host_only,lower,lua.reverse,map_beg(${mapFile(settings, 'wildcard')}) if !{ var(txn.edge) -m found }
  http-request return ${answers.notFound} if !{ var(txn.edge) -m found }

  # Path → route. A path has to be found under the name by which the upstream will know it, or a policy on /admin
  # could be evaded with /x/../admin. What is not certainly the same is spelled one way for the look-up only.
  # Without 'strict', 2.6 decodes nothing at all; with it, a percent sign that encodes nothing is a 400.
  http-request normalize-uri percent-decode-unreserved strict if { path_sub % }
  http-request normalize-uri path-strip-dot if { path_sub /. }
  http-request normalize-uri path-strip-dotdot full if { path_sub /. }
  http-request set-var(txn.path) path
  http-request set-var(txn.path) path,lua.canonical_path if { path -m reg '${unusualPath}' }
  http-request set-var(txn.entry) var(txn.edge),concat(,txn.path),map_str(${mapFile(settings, 'exact')})
  http-request set-var(txn.entry) var(txn.edge),concat(,txn.path,/),map_beg(${mapFile(settings, 'prefix')}) if !{ var(txn.entry) -m found }
  http-request return ${answers.notFound} if !{ var(txn.entry) -m found }

  # May it pass, and where to?${decision(settings, 'http-request')}
  http-request return ${answers.refused} if !{ var(txn.verdict) -m str open }${upstream(settings, 'http-request')}
  http-request return ${answers.unavailable} if ${unreachable}

  # Hop-by-hop headers first, then what clients may not say about themselves, then what the route removes and adds.
  # Upgrade is hop-by-hop too: websockets are not supported, and an upstream sees a plain request.
  acl names_headers req.fhdr(connection) -m found
  acl names_none req.fhdr(connection) -m str -i close keep-alive
  http-request lua.hop_by_hop if names_headers !names_none
  http-request return ${answers.internal} if names_headers !names_none !{ var(txn.unhopped) -m found }
  http-request del-header ^(?:${clientMayNotSend.join('|')})$ -m reg
  http-request add-header X-Forwarded-For %[src]
  http-request add-header X-Forwarded-Proto https
  http-request add-header X-Forwarded-Host %[req.fhdr(host)]
  acl has_headers var(txn.entry),${field.headers} -m str headers
  http-request set-var(txn.target) var(txn.entry),field(1,|) if has_headers
  http-request lua.headers if has_headers
  http-request return ${answers.internal} if has_headers !{ var(txn.rewritten) -m found }
${dial('http-request')}
  use_backend https_tls if { var(txn.backend) -m beg tls }
  default_backend https_plain
`

/**
 * The name asked for is also the one verified, since no verifyhost is given. Without resumption, because a resumed
 * session is not verified again, and all upstreams share one server line here.
 */
const backends = (settings: ProxySettings) => {
  const tls = `ssl verify required ca-file ${quoted(settings.caFile)} sni var(txn.name) no-ssl-reuse`
  return `backend tcp_plain
  mode tcp
  timeout server 1h
  server dyn 0.0.0.0:0

backend tcp_tls
  mode tcp
  timeout server 1h
  server dyn 0.0.0.0:0 ${tls}

backend https_plain
  mode http
  server dyn 0.0.0.0:0

backend https_tls
  mode http
  server dyn 0.0.0.0:0 ${tls}
`
}
