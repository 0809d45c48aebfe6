import { clientMayNotSend } from '../../../kernel/edge/client_headers.ts'
import { withHeaders } from '../maps/codec.ts'
import { limitsOf, mapFile, type ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'
import { httpsBackends } from './backends.ts'
import { enoughInFlight, limitRequests } from './limits.ts'
import { hasNoModule, hasOnlyResponseHeaders } from './modules.ts'
import { findResponseLists } from './response_headers.ts'
import { findCors, leavesCors } from './route_cors.ts'
import { filterMethods, filterUserAgents } from './route_filters.ts'
import { limitRate } from './route_rate.ts'
import { rewriteRequests } from './route_rewrite.ts'
import {
  askOnePolicy,
  controlCharacters,
  decide,
  dial,
  onePolicy,
  part,
  routeOfEdge,
  unusualPath,
  upstream,
} from './rules.ts'

/**
 * Lines of a request's headers that need the careful path: names with anything but letters, digits and hyphens, which
 * could be another name in disguise, and names that clients may not send. Two of those are in most requests, and say
 * nothing: the backends of the fast path remove them. (*LF), because HAProxy may have been built with another line end.
 */
const unusualLine = `(*LF)(?m)^(?:[a-z0-9-]*+[^a-z0-9:\\r-]|(?!connection: keep-alive\\r|te: trailers\\r)(?:${clientMayNotSend
  .map((name) => name.replace('*', '[a-z0-9-]*+'))
  .join('|')}):)`

/** Ordinary characters in a path that has another reading to some servers: a script's name, a session, a dot at the end. */
const unusualToSome = '\\.(?:[A-Za-z][A-Za-z0-9]{1,4}/|/|$)|/\\('

/**
 * Another route could be meant where the edge has restricted ones: to a server that ignores case or a slash at the end, or to
 * some for the characters above. Without an address the request is not reachable here, and left to the careful path.
 */
const leaveOtherReadings = (settings: ProxySettings) => `
  acl guards_itself var(txn.guard),strcmp(txn.entry) eq 0
  acl guard_is_closer ${part('txn.guard', 'depth')},strcmp(txn.depth) ge 0
  http-request set-var(txn.guarded) var(txn.edge),map_str(${mapFile(settings, 'guarded')})
  http-request set-var(txn.folded_path) path,lower,rtrim(/) if guarded
  http-request set-var(txn.guard) var(txn.edge),concat(,txn.folded_path,/|),map_beg(${mapFile(settings, 'guard')}) if guarded
  http-request set-var(txn.depth) ${part('txn.entry', 'depth')} if guarded
  http-request unset-var(txn.address) if guarded guard_is_closer !guards_itself || guarded { path -m reg '${unusualToSome}' }`

/**
 * Nearly all requests are ordinary: their host is spelled as in the map and belongs to the edge of the TLS name, their
 * path has one reading, and their headers hide nothing. For them a few rules say the same as all those of the
 * careful path. Requests with anything missing or in doubt are left to the careful path: a look-up that finds
 * nothing leaves no variable behind, and without it no condition is met. See docs/adr/0042.
 */
export const fastPath = (settings: ProxySettings) => `
  acl reachable var(txn.address) -m found
  acl reachable_plain var(txn.backend) -m beg plain|
  acl few_in_flight be_conn(https_plain) lt ${enoughInFlight(limitsOf(settings), httpsBackends)}
  http-request set-var(txn.edge) var(txn.asked_host),map_str(${mapFile(settings, 'host')}) if !{ method CONNECT TRACE } !{ path -m reg '${unusualPath}' } !{ req.hdrs -m reg '${controlCharacters}' '${unusualLine}' }
  http-request set-var(txn.entry) var(txn.edge),${routeOfEdge(settings, 'txn.asked_path')}${upstream(settings, 'http-request', 'txn.entry')}${dial('http-request')}${leaveOtherReadings(settings)}
  http-request allow if reachable same_edge { ${hasNoModule} } unrestricted reachable_plain few_in_flight
${findResponseLists(settings)}
  http-request allow if has_response_lists reachable same_edge { ${hasOnlyResponseHeaders} } unrestricted reachable_plain few_in_flight
${findCors(settings).slice(1)}
  http-request unset-var(txn.address) if has_redirect || has_response_headers !has_response_lists || ${leavesCors}

  acl has_headers ${part('txn.entry', 'headers')} -m str ${withHeaders}
  acl has_lists var(txn.headers_to_set) -m found
  http-request set-var(txn.header_lists) ${part('txn.entry', 'target')},map_str(${mapFile(settings, 'header_lists')}) if has_headers reachable
  http-request set-var(txn.headers_to_delete) var(txn.header_lists),bytes(6),field(1,|),b64dec
  http-request set-var(txn.set_at) var(txn.header_lists),bytes(0,5)
  http-request set-var(txn.headers_to_set) var(txn.header_lists),bytes(txn.set_at),b64dec if { var(txn.headers_to_delete) -m found }
  http-request allow if has_lists reachable same_edge open unrestricted reachable_plain few_in_flight no_settings
${onePolicy(settings, 'http-request', 'txn.entry')}${askOnePolicy('http-request', 'has_policy !has_headers reachable same_edge unrestricted reachable_plain few_in_flight || has_policy has_lists reachable same_edge unrestricted reachable_plain few_in_flight')}
  http-request allow if allowed no_settings

  # With several policies, with restrictions, the first of a connection, near a limit, or to an upstream with TLS or HTTP/2. Lua
  # is asked after everything that could leave the request to the careful path, so that it warns once.
  acl fast var(txn.fast) -m found
  acl undecided var(txn.undecided) -m found
  http-request set-var(sess.edge) var(txn.edge) if !same_edge sni_same
  http-request set-var(txn.fast) bool(true) if reachable same_edge known_account !has_headers || reachable same_edge known_account has_lists
  http-request set-var(txn.undecided) bool(true) if fast !open || fast !unrestricted
${decide('http-request', 'txn.entry', 'undecided').slice(1)}
  http-request return ${answers.refused} if undecided !allowed

  # Requests that have nothing more to pass leave here: every rule costs those that it is not about, too.
${rewriteRequests(settings, 'fast').slice(1)}
  http-request allow if !has_rate_limit !has_methods !has_user_agent_filter fast reachable_plain few_in_flight
${filterUserAgents(settings, 'fast').slice(1)}${filterMethods(settings, 'fast')}
  http-request allow if !has_rate_limit fast reachable_plain few_in_flight
${limitRate(settings, 'fast').slice(1)}
  http-request allow if fast !many_in_flight${limitRequests(limitsOf(settings), 'fast', 'var(txn.edge)', part('txn.entry', 'account'), `return ${answers.overLimit}`)}
  http-request allow if fast
`

/** For tests without these rules: HAProxy knows only the maps that some rule reads, and can change no others. */
export const fastPathMaps = (settings: ProxySettings) =>
  `  http-request set-var(txn.none) str(-),map_str(${mapFile(settings, 'header_lists')}),map_beg(${mapFile(settings, 'guard')}) if FALSE`
