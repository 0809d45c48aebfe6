import { clientMayNotSend } from '../../../kernel/edge/client_headers.ts'
import { withHeaders } from '../maps/codec.ts'
import { limitsOf, mapFile, type ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'
import { httpsBackends } from './backends.ts'
import { enoughInFlight, limitRequests } from './limits.ts'
import { hasNoModule, hasOnlyPolicies, hasOnlyResponseHeaders } from './modules.ts'
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
const meantOtherwise = '\\.(?:[A-Za-z][A-Za-z0-9]{1,4}/|/|$)|/\\('
/** The same, and what some servers ignore: capitals, and a slash at the end. */
const unusualToSome = `[A-Z]|./$|${meantOtherwise}`

/**
 * On an edge with restricted routes, a server that ignores case or a trailing slash, or that reads the characters above
 * differently, could serve another route. A path without any of these finds a restricted route and its guard under the same
 * key, unless the route's own match contains one. In doubt, unsetting the address leaves the request to the careful path.
 */
const findGuards = (settings: ProxySettings) => `
  http-request set-var(txn.guarded) var(txn.edge),map_str(${mapFile(settings, 'guarded')})
  http-request unset-var(txn.guarded) if guarded !{ path -m reg '${unusualToSome}' } !{ var(txn.edge),map_str(${mapFile(settings, 'odd_guard')}) -m found }`
const leaveOtherReadings = (settings: ProxySettings) => `
  acl guards_itself var(txn.guard),strcmp(txn.entry) eq 0
  acl guard_is_closer ${part('txn.guard', 'depth')},strcmp(txn.depth) ge 0
  http-request set-var(txn.folded_path) path,lower,rtrim(/) if guarded
  http-request set-var(txn.guard) var(txn.edge),concat(,txn.folded_path,/|),map_beg(${mapFile(settings, 'guard')}) if guarded
  http-request set-var(txn.depth) ${part('txn.entry', 'depth')} if guarded
  http-request unset-var(txn.address) if guarded guard_is_closer !guards_itself || guarded { path -m reg '${meantOtherwise}' }`

/**
 * Nearly all requests are ordinary: their host is spelled as in the map and belongs to the edge of the TLS name, their
 * path has one reading, and their headers hide nothing. For them a few rules say the same as all those of the
 * careful path. Requests with anything missing or in doubt are left to the careful path: a look-up that finds
 * nothing leaves no variable behind, and without it no condition is met. See docs/adr/0042.
 */
export const fastPath = (settings: ProxySettings) => {
  const perBackend = enoughInFlight(limitsOf(settings), httpsBackends)
  const mayLeave = 'reachable same_edge unrestricted reachable_plain few_in_flight'
  return `
  acl reachable var(txn.address) -m found
  acl reachable_plain var(txn.backend) -m beg plain|
  acl few_in_flight be_conn(https_plain) lt ${perBackend}
  acl few_changed be_conn(https_plain_changed) lt ${perBackend}
  acl has_policy var(txn.policy) -m found
  acl only_policies ${hasOnlyPolicies}
  http-request set-var(txn.edge) var(txn.asked_host),map_str(${mapFile(settings, 'host')}) if !{ method CONNECT TRACE } !{ path -m reg '${unusualPath}' } !{ req.hdrs -m reg '${controlCharacters}' '${unusualLine}' }
  http-request set-var(txn.entry) var(txn.edge),${routeOfEdge(settings, 'txn.asked_path')}${upstream(settings, 'http-request', 'txn.entry')}${dial('http-request')}${findGuards(settings)}
  http-request allow if ${mayLeave} { ${hasNoModule} } !guarded
  # A route with one policy and nothing else.${onePolicy(settings, 'http-request', 'txn.entry', 'only_policies !guarded')}${askOnePolicy('http-request', `has_policy ${mayLeave}`)}
  http-request allow if allowed${leaveOtherReadings(settings)}
${findResponseLists(settings)}
  http-request allow if has_response_lists ${mayLeave} few_changed { ${hasOnlyResponseHeaders} }
${findCors(settings).slice(1)}
  http-request unset-var(txn.address) if has_redirect || has_response_headers !has_response_lists || ${leavesCors}

  acl has_headers ${part('txn.entry', 'headers')} -m str ${withHeaders}
  acl has_lists var(txn.headers_to_set) -m found
  http-request set-var(txn.header_lists) ${part('txn.entry', 'target')},map_str(${mapFile(settings, 'header_lists')}) if has_headers reachable
  http-request set-var(txn.headers_to_delete) var(txn.header_lists),bytes(6),field(1,|),b64dec
  http-request set-var(txn.set_at) var(txn.header_lists),bytes(0,5)
  http-request set-var(txn.headers_to_set) var(txn.header_lists),bytes(txn.set_at),b64dec if { var(txn.headers_to_delete) -m found }
  http-request allow if has_lists open ${mayLeave} few_changed no_settings${onePolicy(settings, 'http-request', 'txn.entry', 'no_settings !only_policies || guarded no_settings')}${askOnePolicy('http-request', `has_policy no_settings ${mayLeave} few_changed !has_headers || has_policy no_settings ${mayLeave} few_changed has_lists`)}
  http-request allow if allowed

  # With several policies, with restrictions, the first of a connection, near a limit, or to an upstream with TLS or HTTP/2. Lua
  # is asked after everything that could leave the request to the careful path, so that it warns once.
  acl fast var(txn.fast) -m found
  http-request set-var(sess.edge) var(txn.edge) if !same_edge sni_same
  http-request set-var(txn.fast) bool(true) if reachable same_edge known_account !has_headers || reachable same_edge known_account has_lists
  http-request set-var(txn.undecided) bool(true) if fast !open || fast !unrestricted
${decide('http-request', 'txn.entry', 'undecided').slice(1)}
  http-request return ${answers.refused} if undecided !allowed

  # Requests that have nothing more to pass leave here: every rule costs those that it is not about, too.
${rewriteRequests(settings, 'fast').slice(1)}
  http-request allow if !has_rate_limit !has_methods !has_user_agent_filter fast reachable_plain few_in_flight few_changed
${filterUserAgents(settings, 'fast').slice(1)}${filterMethods(settings, 'fast')}
  http-request allow if !has_rate_limit fast reachable_plain few_in_flight few_changed
${limitRate(settings, 'fast').slice(1)}
  http-request allow if fast !many_in_flight${limitRequests(limitsOf(settings), 'fast', 'var(txn.edge)', part('txn.entry', 'account'), `return ${answers.overLimit}`)}
  http-request allow if fast
`
}

/** For tests without these rules: HAProxy knows only the maps that some rule reads, and can change no others. */
export const fastPathMaps = (settings: ProxySettings) =>
  `  http-request set-var(txn.none) str(-),map_str(${mapFile(settings, 'header_lists')}),map_beg(${mapFile(settings, 'guard')}),map_str(${mapFile(settings, 'odd_guard')}) if FALSE`
