import { routeModuleNames } from '../../../distribution/route_modules.ts'
import { timeoutLimits, websocketIdleSeconds } from '../../../kernel/edge/timeouts.ts'
import { packageFiles } from '../../../kernel/package_files.ts'
import { earlyLines, logConnections, logRequests, rings, withEdition } from '../lines/request_lines.ts'
import { backendValue, targetPartNames } from '../maps/codec.ts'
import { matchesParameters, readyKey, slashesAllowed } from '../maps/entries.ts'
import { nativeMissing, nativeSections } from '../native/sections.ts'
import { sendsProxy, toHttp2 } from '../native/upstream.ts'
import { beforeWebsocket, noteWebsocket, websocketTable } from '../sessions.ts'
import { limitsOf, mapFile, operatorList, type ProxySettings, tenantList } from '../settings.ts'
import { answers, parserAnswers } from './answers.ts'
import { backends, httpsBackends } from './backends.ts'
import {
  expectProxyProtocol,
  forwardedFor,
  refuseHttp3FromBalancers,
  refuseUnnamedConnections,
  refuseUnnamedRequests,
  sourceStage,
} from './client_address.ts'
import { refuseEmergencyConnections, refuseEmergencyRequests } from './emergency.ts'
import { fastPath, fastPathMaps } from './fast_path.ts'
import { limitRequests, limitSourceConnections, limitTables, limitTcpEdge, manyInFlight } from './limits.ts'
import { changesNoRequest, hasNoModule, moduleAcls } from './modules.ts'
import { checkCertificates } from './mutual_tls.ts'
import { redirectFrontend } from './redirect.ts'
import { changeResponses, findResponseLists, responseHeaderAcls } from './response_headers.ts'
import { chooseResponse, responseBackend } from './responses.ts'
import { answerPreflights, corsAcls, findCors } from './route_cors.ts'
import { filterAcls, filterMethods, filterUserAgents } from './route_filters.ts'
import { limitConnectionRate, limitRate, rateAcls, rateTables, rateValueAcls } from './route_rate.ts'
import { redirectRequests } from './route_redirect.ts'
import { rewriteRequests } from './route_rewrite.ts'
import {
  askOnePolicy,
  controlCharacters,
  decide,
  decision,
  dial,
  isUnreachable,
  native,
  onePolicy,
  part,
  quoted,
  refuseConnection,
  routeOfEdge,
  unusualPath,
  upstream,
  validHost,
} from './rules.ts'

/**
 * The whole configuration. It depends on the operator's settings alone: what tenants write is only ever in map values
 * and policy files, so that no tenant can break or bend it, and a change never needs a reload.
 */
export function renderConfig(settings: ProxySettings): string {
  return renderEdition(settings).config
}

/** With what its lines say of it; see request_lines.ts. */
export function renderEdition(settings: ProxySettings): { config: string; edition: string } {
  const sections = [
    global(settings),
    rings(settings),
    earlyLines,
    defaults(settings),
    tcpFrontend(settings),
    httpsFrontend(settings),
    redirectFrontend(settings),
    backends(settings),
    limitTables(settings),
    rateTables,
    websocketTable(settings),
    nativeMissing,
    nativeSections(settings, commonDefaults(settings)),
  ]
  return withEdition(sections.join('\n'))
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
  setenv GATEHOUSE_POLICY_CACHE_BYTES ${policyCacheBytes(settings)}
  # The last line: gatehouse.lua bounds everything it keeps. Beyond it Lua fails, and a request that needs Lua is refused.
  tune.lua.maxmem ${luaMegabytes(settings)}
${packageFiles.lua.map((file) => `  lua-load-per-thread ${quoted(file)} ${targetPartNames}\n`).join('')}  # What HAProxy says about servers, of which the agent hears changes of health.
  log ring@events len 1024 format raw local0
  # Half a buffer stays free for headers that a route adds; entries.ts refuses what would not fit.
  tune.bufsize 32768
  tune.maxrewrite 16384
  # For the copy of a request that may have to be sent again; a larger one gets a whole buffer.
  tune.bufsize.small 4096
  # How much of an upload may be under way unread: with the default of 64 KiB, a client far away waits most of the time.
  tune.h2.fe.initial-window-size 1048576
  # Two for sources, whose connections and requests count separately, one for each other limit, one for refusals; see limits.ts.
  # One for WebSockets; see sessions.ts. Two for rates of routes; see route_rate.ts.
  tune.stick-counters 8
  set-var proc.closes int(0)
  # All rules in one go. After 50, the default, HAProxy would let other requests run first, and many could find that few are
  # in flight before the first of them is.
  tune.max-rules-at-once 1000
  # HAProxy remembers what patterns said about a text. Lists of header names come again, whole headers hardly ever: with
  # the default of 10,000 texts they only push one another out of the processor's caches.
  tune.pattern.cache-size 256
  ssl-default-bind-options ssl-min-ver TLSv1.2
  ssl-default-server-options ssl-min-ver TLSv1.2
  # normalize-uri is complete in 2.6, but not yet declared stable.
  expose-experimental-directives
`

const policyCacheBytes = ({ policyCacheBytes: bytes = 64 << 20 }: ProxySettings): number => bytes
/** Policies and rules have a cache each; what else a thread keeps is at most 98 MiB. A file of 64 MiB takes twice that while it is read. */
const luaMegabytes = (settings: ProxySettings): number =>
  settings.luaMegabytes ?? settings.threads * (Math.ceil((2 * policyCacheBytes(settings)) / (1 << 20)) + 128) + 128

const defaults = (settings: ProxySettings) => `defaults\n${commonDefaults(settings)}`

const commonDefaults = ({
  responseTimeoutMs = timeoutLimits.response_seconds.default * 1_000,
}: ProxySettings) => `  timeout connect ${timeoutLimits.connect_seconds.default}s
  timeout client 60s
  timeout server ${responseTimeoutMs}ms
  timeout http-request 10s
  timeout http-keep-alive 60s
  timeout tunnel ${websocketIdleSeconds}s
  # A peer that never ends its handshake, or its half of a connection, must not hold it for as long as a live one.
  timeout client-hs 10s
  timeout client-fin 30s
  timeout server-fin 30s
  option clitcpka
  option srvtcpka
  option use-small-buffers l7-retries
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

/** v6only: an IPv4 client on an IPv6 socket would appear as a mapped address, and its edge under another key. */
const listen = (address: string, port: string): string =>
  address.includes(':') ? `[${address}]:${port} v6only` : `${address}:${port}`

const tcpFrontend = (settings: ProxySettings) => `frontend tcp
  mode tcp
${settings.tcpBind.addresses.map((address) => `  bind ${listen(address, `${settings.tcpBind.first}-${settings.tcpBind.last}`)}\n`).join('')}  timeout client 1h${logConnections(settings)}${expectProxyProtocol(settings)}${refuseUnnamedConnections(settings)}${refuseEmergencyConnections(settings)}${limitSourceConnections(settings)}
  # Unknown destinations are closed before anything is allocated for them.
  tcp-request connection set-var(sess.port) dst_port
  tcp-request connection set-var(sess.entry) dst,concat(:,sess.port),map_str(${mapFile(settings, 'tcp')})
  tcp-request connection set-var(sess.entry) str(*:),concat(,sess.port),map_str(${mapFile(settings, 'tcp')}) if !{ var(sess.entry) -m found }
  tcp-request connection reject if !{ var(sess.entry) -m found }${limitTcpEdge(limitsOf(settings), part('sess.entry', 'target'), part('sess.entry', 'account'))}
  # Lua needs a stream, which begins here; no upstream has been dialed yet.
  acl has_policy var(txn.policy) -m found${decision(settings, 'sess.entry')}${onePolicy(settings, 'tcp-request content', 'sess.entry')}${askOnePolicy('tcp-request content', 'has_policy unrestricted')}
  acl cleared var(txn.cleared) -m found
  tcp-request content set-var(txn.cleared) bool(true) if allowed || open unrestricted${decide('tcp-request content', 'sess.entry', '!cleared')}
  ${refuseConnection} if !cleared !allowed${limitConnectionRate(settings)}${upstream(settings, 'tcp-request content', 'sess.entry')}${native(settings, 'tcp-request content', 'sess.entry')}
  ${refuseConnection} if ${isUnreachable} !native
  ${refuseConnection} if native all_down${dial('tcp-request content')}
  # One that is not there is skipped, and nothing else may be dialed instead.
  use_backend %[var(txn.native)] if native
  use_backend native_missing_tcp if native
  acl sends_proxy var(txn.backend),${backendValue.field('proxy')} -m str ${sendsProxy}
  use_backend tcp_tls_proxy if sends_proxy { var(txn.backend) -m beg tls }
  use_backend tcp_plain_proxy if sends_proxy
  use_backend tcp_tls if { var(txn.backend) -m beg tls }
  default_backend tcp_plain
`

const encodedSeparator = '\\\\|%(?:2[Ff]|5[Cc])'
/** A dot segment once its parameters are cut: `..;x` is a name to some servers and the parent folder to others. */
const dotsWithParameters = '/\\.{1,2}(?:;|%3[Bb])'

/**
 * HTTP/3 on the same addresses and ports, over UDP; early data stays refused, because it can be replayed. Where load
 * balancers have to send the PROXY protocol, which there is none of over UDP, nothing from them is accepted.
 */
const httpsBinds = (settings: ProxySettings): string => {
  // The operator's, for the names in them, and those of accounts, for the names in the list.
  const files = `crt-list ${quoted(operatorList(settings))} crt-list ${quoted(tenantList(settings))}`
  const tls = `ssl ${files} strict-sni`
  const overTcp = (at: string) => `  bind ${at}${at.startsWith('[') ? ' v6only' : ''} ${tls} alpn h2,http/1.1\n`
  const overUdp = (at: string) => `  bind quic${at.startsWith('[') ? 6 : 4}@${at} name http3 ${tls} alpn h3\n`
  const { httpsBind, isHttp3On = false } = settings
  return [...httpsBind.map(overTcp), ...(isHttp3On ? httpsBind.map(overUdp) : [])].join('')
}
/** Announces the port that clients know, which may differ from the one the node listens on. */
const announceHttp3 = ({ isHttp3On }: ProxySettings): string =>
  isHttp3On ? `  http-after-response set-header Alt-Svc 'h3=":443"; ma=3600'\n` : ''

/** Every rule costs, and so does every condition; least one on a variable that is not there. See docs/contribute/edge-tests.md. */
const httpsFrontend = (settings: ProxySettings) => `frontend https
  mode http
${httpsBinds(settings)}
${parserAnswers(settings)}  unique-id-format %[uuid(7)]${logRequests(settings)}${refuseHttp3FromBalancers(settings)}${expectProxyProtocol(settings)}${refuseEmergencyConnections(settings)}${limitSourceConnections(settings)}
  # Written once for all requests of a connection.
  tcp-request ${sourceStage(settings)} set-var-fmt(sess.source) "%[src]"

  # While the node drains, answers end their connections; HTTP/2 gets GOAWAY from HAProxy itself. What comes on an old
  # connection long after that would be decided by what was in force then. Both variables are set by process.ts.
  http-after-response set-header Connection close if { var(proc.draining) -m bool }
  # An answer of the edge itself may come before the end of a request's body. HAProxy 3.4 then reads the rest, but over TLS
  # it may leave what comes right behind it, the next request, unread until the time is up.
  http-after-response set-header Connection close if !METH_GET !METH_HEAD { fc_http_major 1 } !{ srv_id gt 0 }
  http-request return ${answers.draining} if { stopping } { date,sub(proc.refuse_after) gt 0 }
${announceHttp3(settings)}${changeResponses.slice(1)}${refuseUnnamedRequests(settings)}${forwardedFor(settings)}${refuseEmergencyRequests(settings)}
  # What both paths ask.
  acl same_edge var(txn.edge),strcmp(sess.edge) eq 0
  acl sni_same ssl_fc_sni,lower,map_str(${mapFile(settings, 'host')}),strcmp(txn.edge) eq 0
  acl guarded var(txn.guarded) -m found
  acl undecided var(txn.undecided) -m found
  acl known_account ${part('txn.entry', 'account')},map_str(${mapFile(settings, 'restrictions')}) -m found${decision(settings, 'txn.entry')}${responseHeaderAcls}${moduleAcls}${corsAcls}${filterAcls}${rateAcls}${rateValueAcls}${manyInFlight(limitsOf(settings), httpsBackends)}
${settings.isCarefulOnly ? fastPathMaps(settings) : fastPath(settings)}
  # Everything else takes the careful path, which uses nothing that the fast path has found.
  acl careful var(txn.careful) -m found
  http-request set-var(txn.careful) bool(true)
${['edge', 'entry', 'backend', 'address', 'native', 'decision', 'undecided', 'guarded', 'response_lists', 'cors_origin', 'origin', ...routeModuleNames].map((name) => `  http-request unset-var(txn.${name})\n`).join('')}${beforeWebsocket}
  # A tunnel would carry requests that no rule below sees.
  http-request return ${answers.notAllowed} if METH_CONNECT || METH_TRACE
  http-request return ${answers.badRequest} if { req.hdrs -m reg '${controlCharacters}' }

  # A path has to be found under the name by which the upstream will know it, or a policy on /admin could be evaded
  # with /x/../admin. What is not certainly the same is spelled one way for the look-up only.
  # Without 'strict', nothing is decoded at all; with it, a percent sign that encodes nothing is refused, which the rule
  # before it does with an id.
  acl unusual_path var(txn.unusual_path) -m found
  http-request set-var(txn.unusual_path) bool(true) if { path -m reg '${unusualPath}' }
  http-request return ${answers.badRequest} if unusual_path { path -m reg '%(?![0-9A-Fa-f]{2})' }
  http-request normalize-uri percent-decode-unreserved strict if unusual_path
  http-request normalize-uri path-strip-dot if unusual_path
  http-request normalize-uri path-strip-dotdot full if unusual_path
  # After two slashes, URL parsers expect a host.
  http-request set-path %[path,regsub(^//+,/)] if unusual_path { path -m beg // }
  http-request set-var(txn.path) path if !unusual_path
  http-request set-var(txn.path) path,lua.canonical_path if unusual_path
  http-request return ${answers.internal} if !{ var(txn.path) -m found }

  # Host → edge. A plain known name needs no check: everything else must be a name or an address, and a port.
  # A host of its own is never served by a wildcard, also where it has no route.
  acl known_host var(txn.edge) -m found
  http-request set-var(txn.edge) req.fhdr(host),lower,map_str(${mapFile(settings, 'host')})
  http-request return ${answers.badHost} if !known_host !{ req.fhdr(host),lower -m reg '${validHost}' }
  http-request set-var(txn.host) req.fhdr(host),lower,host_only,rtrim(.) if !known_host
  http-request set-var(txn.edge) var(txn.host),map_str(${mapFile(settings, 'host')}) if !known_host
  http-request set-var(txn.edge) var(txn.host),lua.reverse,map_beg(${mapFile(settings, 'wildcard')}) if !known_host
${checkCertificates(settings)}

  # Edge and path → route.
  acl found var(txn.entry) -m found
  http-request set-var(txn.entry) var(txn.edge),${routeOfEdge(settings, 'txn.path')}
${otherReadings(settings)}
  http-request return ${answers.notReady} if !found !{ str(${readyKey}),map_str(${mapFile(settings, 'node')}) -m found }
  http-request return ${answers.notFound} if !found

  # A client admitted under one edge's name must not reach another edge on the same connection. Compared by edge, so that
  # browsers may share a connection among the names of one; remembered, so that a connection is checked once.
  acl sni_wildcard_same ssl_fc_sni,lower,lua.reverse,map_beg(${mapFile(settings, 'wildcard')}),strcmp(txn.edge) eq 0
  http-request return ${answers.misdirected} if !is_mutual !same_edge sni_known !sni_same || !is_mutual !same_edge !sni_known !sni_wildcard_same
  http-request set-var(sess.edge) var(txn.edge) if !is_mutual !same_edge
${findResponseLists(settings)}${findCors(settings)}
  http-request return ${answers.internal} if has_response_headers !has_response_lists || has_cors !has_cors_lists

  # May it pass, and where to?
  acl has_modules var(txn.has_modules) -m found
  http-request set-var(txn.has_modules) bool(true) if !{ ${hasNoModule} } || !unrestricted
  http-request return ${answers.notReady} if has_modules !known_account
  # Remembered: a restriction may come between two look-ups.
  http-request set-var(txn.undecided) bool(true) if has_modules !open || has_modules !unrestricted
${decide('http-request', 'txn.entry', 'undecided').slice(1)}
  http-request return ${answers.refused} if undecided !allowed
${askOtherReadings(settings)}
  http-request return ${answers.ambiguousPath} if has_parameters { path -m reg '${dotsWithParameters}' }${filterUserAgents(settings, '')}${answerPreflights}${filterMethods(settings, '')}${limitRate(settings, '')}${redirectRequests(settings)}${upstream(settings, 'http-request', 'txn.entry')}${native(settings, 'http-request', 'txn.entry')}${limitRequests(limitsOf(settings), '', 'var(txn.edge)', part('txn.entry', 'account'), `return ${answers.overLimit}`, ' || native')}${noteWebsocket}
${chooseResponse(settings)}
  http-request return ${answers.unavailable} if ${isUnreachable} !native !responds
  http-request return ${answers.allDown} if native all_down !responds${dial('http-request')}${rewriteRequests(settings, 'careful')}
  use_backend ${responseBackend} if responds
  # One that is not there is skipped, and nothing else may be dialed instead.
  use_backend %[var(txn.native)] if native
  use_backend native_missing_http if native
  acl to_plain var(txn.backend) -m beg plain|
  acl to_tls var(txn.backend) -m beg tls
  acl to_http2 var(txn.backend),${backendValue.field('protocol')} -m end -- ${toHttp2}
  use_backend https_plain if !careful to_plain { ${changesNoRequest} }
  use_backend https_plain_changed if !careful to_plain
  use_backend https_tls_http2 if to_http2 to_tls
  use_backend https_plain_http2 if to_http2
  use_backend https_tls if !careful
  use_backend https_tls_careful if to_tls
  default_backend https_plain_careful
`

/**
 * Upstreams that read encoded slashes and backslashes literally see another path than the one looked up. Both must find
 * the same route, which allows them. docs/adr/0033 has the readings that were considered.
 */
const otherReadings = (settings: ProxySettings) => `
  acl encoded_slash var(txn.encoded_slash) -m found
  acl has_parameters var(txn.has_parameters) -m found
  acl has_literal var(txn.literal_path) -m found
  acl same_reading var(txn.literal),strcmp(txn.entry) eq 0
  http-request set-var(txn.encoded_slash) bool(true) if unusual_path { path -m reg '${encodedSeparator}' }
  http-request set-var(txn.has_parameters) bool(true) if unusual_path { path -m reg ';|%3[Bb]' }
  http-request set-var(txn.literal_path) path,lua.literal_path if encoded_slash || has_parameters
  http-request return ${answers.internal} if encoded_slash !has_literal || has_parameters !has_literal
  http-request set-var(txn.literal) var(txn.edge),${routeOfEdge(settings, 'txn.literal_path')} if has_literal
  http-request return ${answers.ambiguousPath} if encoded_slash !{ ${part('txn.entry', 'slashes')} -m str ${slashesAllowed} } || encoded_slash !same_reading
  # A match with parameters can only be found literally, and then it is the closer one.
  acl literal_is_closer ${part('txn.literal', 'slashes')} -m str ${matchesParameters}
  http-request set-var(txn.entry) var(txn.literal) if has_parameters literal_is_closer`

/**
 * On an edge with a restricted route, the policies of every route that the path could belong to for some server have to
 * allow the request: docs/adr/0033. If another reading is refused, that is what the line about the request says.
 */
const askOtherReadings = (settings: ProxySettings) => `
  acl fine var(txn.other_readings) -m str fine
  http-request set-var(txn.guarded) var(txn.edge),map_str(${mapFile(settings, 'guarded')})
  http-request set-var(txn.source) src,hex if guarded
  http-request set-var(txn.other_readings) lua.other_readings if guarded
  http-request return ${answers.ambiguousPath} if guarded { var(txn.other_readings) -m str ambiguous }
  http-request set-var(txn.entry) var(txn.other_readings),field(2,;) if guarded !fine
  http-request set-var(txn.decision) var(txn.other_readings),field(1,;) if guarded !fine
  http-request return ${answers.refused} if guarded !fine`
