// What an edge does with a request, written from docs/ and openapi.json alone, without regard to how the agent does it.
// Simple rather than fast. A difference from what the edge does is a defect of the edge, of this file, or of the docs.
import { bitString, prefixOf } from '../deciders/deciders.ts'
import { type ClientName, handshakeFault, type MutualTls } from './certificates.ts'
import { type Cors, corsHeaders, preflightOf } from './cors.ts'
import { byName, forwardedHeaders, locationOf, passes, userAgentPasses, withResponseHeaders } from './headers.ts'
import {
  canonical,
  covers,
  decodedBetweenSeparators,
  forwardedPath,
  readings,
  rewritten,
  withoutDots,
} from './paths.ts'

export type Module<Fields> = ({ enabled: boolean } & Fields) | null
export type Rule = { id: string; action: 'allow' | 'deny'; cidr: string; expires_at?: string | null }
export type Restriction = { id: string; enforced: boolean; ip_policy_ids: string[] }
type HeadersModule = Module<{ add: Record<string, string>; remove: string[] }>
export type Filter = { allow: string[]; deny: string[]; mode: 'enforce' | 'warn' }
export type Rewrite = { strip_prefix: string | null; add_prefix: string | null; host: string | null }
type IpModule = Module<{ ip_policy_ids: string[]; mode: 'enforce' | 'warn' }>
export type Route = {
  id: string
  match_type: 'exact_path' | 'path_prefix'
  match: string
  encoded_slashes: 'reject' | 'allow'
  path_variants: 'restrict' | 'ignore'
  websocket: boolean
  backend: Module<{ backend_id: string }>
  ip_restriction: IpModule
  request_headers: HeadersModule
  response_headers: HeadersModule
  user_agent_filter: Module<Filter>
  cors: Module<Cors>
  methods: Module<Filter>
  redirect: Module<{ to: string; status_code: number; keep_path: boolean; keep_query: boolean }>
  rewrite: Module<Rewrite>
}
export type Backend =
  | { kind: 'static'; port: number; isDead: boolean; protocol: 'http1' | 'http2' }
  | { kind: 'weighted'; backends: Record<string, number> }
  | { kind: 'failover'; backends: string[] }
  | { kind: 'http_response'; status_code: number; headers: Record<string, string>; body: string }
export type HttpsEdge = { id: string; names: string[]; routes: Route[]; mutual_tls: Module<MutualTls> }
export type TcpEdge = { id: string; hostports: string[]; backend: Route['backend']; ip_restriction: IpModule }
/** The resources of an account, as the API returns them, without what does not concern traffic. */
export type Account = {
  id: string
  policies: Map<string, Rule[]>
  restrictions: Restriction[]
  backends: Map<string, Backend>
  https: HttpsEdge[]
  tcp: TcpEdge[]
}
export type Header = [name: string, value: string]
export type HttpRequest = {
  protocol: '1.1' | '2'
  source: string
  /** The name in the TLS handshake. */
  serverName: string
  /** Whose certificate it has in the handshake, if the edge asks. */
  client: ClientName
  host: string
  method: string
  target: string
  headers: Header[]
}
export type TcpConnection = { source: string; address: string; port: number }

export type Counted = {
  outcome: 'allowed' | 'warned' | 'refused' | 'failed' | 'limited'
  reason?: string
  account?: string
  edge?: string
  route?: string
  restriction?: string
  policy?: string
  rule?: string
}
/** What the upstream gets: one of several ports if the backend has several servers. */
export type Forwarded = { ports: number[]; target: string; method: string; headers: Header[] }
export type Expected = {
  status: number
  errorCode?: string
  /** What an HTTP response backend answers. */
  response?: { headers: Header[]; body: string }
  /** The edge has answered one itself. */
  isPreflight?: true
  /** Headers that the client gets of an upstream's answer, and what the edge's own has of those that the route adds. */
  answered?: Header[]
  onOwnAnswer?: [name: string, value: string | undefined][]
  forwarded?: Forwarded
  counted: Counted
  /** The route of the path, which is not always the one that refuses. */
  served?: string
  /** Rules that decided: one for the module, one for each restriction, and one for another spelling that refused. */
  hits: string[]
  /** Restrictions and modules that would have refused it, if they were enforced; even if something else refuses it. */
  warnings: number
}

// Addresses

const mappedPrefix = prefixOf('::ffff:0:0/96')
const isV4 = (bits: string) => bits.startsWith(mappedPrefix)

/** An IPv4-mapped address is its IPv4 address. */
export function canonicalSource(source: string): string {
  const bits = bitString(source) ?? ''
  if (!isV4(bits)) return source
  return [0, 8, 16, 24].map((at) => Number.parseInt(bits.slice(96 + at, 104 + at), 2)).join('.')
}

type Decision = { allowed: boolean; policy?: string; rule?: string }

/**
 * The most specific deny, or else the most specific allow; of several policies, that of the first which has one. If no rule
 * matches, a policy that is attached alone has decided.
 */
export function decide({ policies }: Account, ids: readonly string[], source: string, now: number): Decision {
  const bits = bitString(source) ?? ''
  const matches = ({ cidr, expires_at }: Rule) =>
    (!expires_at || Date.parse(expires_at) > now) &&
    bits.startsWith(prefixOf(cidr)) &&
    isV4(bits) === isV4(prefixOf(cidr).padEnd(128, '0'))
  for (const action of ['deny', 'allow'] as const)
    for (const policy of ids) {
      const matching = (policies.get(policy) ?? []).filter((rule) => rule.action === action && matches(rule))
      const [closest] = matching.sort((a, b) => prefixOf(b.cidr).length - prefixOf(a.cidr).length)
      if (closest) return { allowed: action === 'allow', policy, rule: closest.id }
    }
  const [policy] = ids
  return { allowed: false, ...(policy && ids.length === 1 && { policy }) }
}

type Verdict = { refused?: Counted; warned?: Counted; hits: string[]; warnings: number }

type Guard = { route: string; ip_restriction: IpModule }

/**
 * The module first, then each restriction of the account, then the routes of other spellings: the first enforced step that
 * does not allow refuses.
 */
function evaluate(
  account: Account,
  module: IpModule,
  source: string,
  now: number,
  variants: readonly Guard[] = [],
): Verdict {
  const verdict: Verdict = { hits: [], warnings: 0 }
  const step = (ids: string[], counted: Counted, isEnforced: boolean, isVariant = false) => {
    const { allowed, ...by } = decide(account, ids, source, now)
    if (by.rule && !(allowed && isVariant)) verdict.hits.push(by.rule)
    if (allowed) return
    if (isEnforced) verdict.refused ??= { ...counted, ...by }
    else {
      verdict.warnings++
      verdict.warned ??= { ...counted, ...by }
    }
  }
  if (module?.enabled) {
    const isEnforced = module.mode === 'enforce'
    step(module.ip_policy_ids, { outcome: isEnforced ? 'refused' : 'warned', reason: 'policy' }, isEnforced)
  }
  for (const { id, enforced, ip_policy_ids } of account.restrictions)
    step(
      ip_policy_ids,
      { outcome: enforced ? 'refused' : 'warned', ...(enforced && { reason: 'restriction' }), restriction: id },
      enforced,
    )
  for (const { route, ip_restriction } of variants)
    if (ip_restriction && !verdict.refused)
      step(ip_restriction.ip_policy_ids, { outcome: 'refused', reason: 'policy', route }, true, true)
  return verdict
}

// Names

/** An exact name takes precedence over a wildcard, and a longer wildcard over a shorter one. */
export function findEdge(
  accounts: readonly Account[],
  name: string,
): { account: Account; edge: HttpsEdge } | undefined {
  const labels = name.split('.')
  const candidates = [name, ...labels.slice(1).map((_, index) => `*.${labels.slice(index + 1).join('.')}`)]
  for (const candidate of candidates)
    for (const account of accounts)
      for (const edge of account.https) if (edge.names.includes(candidate)) return { account, edge }
  return undefined
}

/** Without its port and a final dot; undefined if it is not a name or an address with an optional port. */
export function nameOfHost(host: string): string | undefined {
  const [, name] = /^([a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?(?::\d{1,5})?$/i.exec(host) ?? []
  return name?.toLowerCase()
}

// Routes

const loose = (path: string) => path.toLowerCase().replace(/(?<=.)\/+$/, '')
/** One that only warns says nothing about other spellings. */
const refuses = (module: IpModule) => module?.enabled === true && module.mode === 'enforce'
const isRestricted = ({ ip_restriction, path_variants }: Route) =>
  refuses(ip_restriction) && path_variants === 'restrict'

/** exact_path takes precedence over path_prefix, and the longest prefix wins. */
const weight = ({ match_type, match }: Route) => match.length + (match_type === 'exact_path' ? 0.5 : 0)
const closest = (routes: readonly Route[]) => [...routes].sort((a, b) => weight(b) - weight(a))[0]
export const findRoute = (routes: readonly Route[], path: string) =>
  closest(routes.filter(({ match, match_type }) => covers(canonical(match), match_type, path)))

/** The routes whose policies must allow the request, besides the one that serves it. */
function guards({ routes }: HttpsEdge, path: string, served: Route): Route[] {
  const asked = new Set<Route>()
  if (routes.some(({ ip_restriction }) => refuses(ip_restriction)))
    for (const reading of readings(path)) {
      const asItStands = findRoute(routes, reading)
      const restricted = routes.filter(
        (route) => isRestricted(route) && covers(loose(canonical(route.match)), route.match_type, loose(reading)),
      )
      const variant = closest(restricted)
      const isCloser = variant && (!asItStands || weight(variant) >= weight(asItStands))
      for (const route of [asItStands, isCloser ? variant : undefined])
        if (route && isRestricted(route)) asked.add(route)
    }
  asked.delete(served)
  return [...asked]
}

// Backends

type Choice = {
  ports: number[]
  isHttp2?: boolean
  response?: Extract<Backend, { kind: 'http_response' }>
  failure?: string
}

/** Where a request may go. With a server that does not listen, a group uses the others. */
function choose({ backends }: Account, id: string): Choice {
  const backend = backends.get(id)
  if (!backend) return { ports: [], failure: 'no_backend' }
  if (backend.kind === 'http_response') return { ports: [], response: backend }
  if (backend.kind === 'static')
    return backend.isDead
      ? { ports: [], failure: 'connect_failed' }
      : { ports: [backend.port], isHttp2: backend.protocol === 'http2' }
  const members =
    backend.kind === 'failover'
      ? backend.backends
      : Object.keys(backend.backends).filter((member) => backend.backends[member])
  const choices = members.map((member) => choose({ backends } as Account, member)).filter(({ failure }) => !failure)
  if (choices.length === 0) return { ports: [], failure: 'all_down' }
  return backend.kind === 'failover' ? (choices[0] as Choice) : { ports: choices.flatMap(({ ports }) => ports) }
}

// Whole requests

const failed = (status: number, errorCode: string, reason: string, place: Partial<Counted> = {}): Expected => ({
  status,
  errorCode,
  counted: { outcome: 'failed', reason, ...place },
  hits: [],
  warnings: 0,
})

export function expectHttp(accounts: readonly Account[], request: HttpRequest, now: number): Expected {
  const { host, method, target } = request
  const name = nameOfHost(host)
  const [path = ''] = target.split('?')
  if (/%(?![0-9a-f]{2})/i.test(path)) return failed(400, 'ERR_BAD_REQUEST', 'bad_request')
  const found = name === undefined ? undefined : findEdge(accounts, name)
  if (method === 'CONNECT' || method === 'TRACE') return failed(405, 'ERR_METHOD_NOT_ALLOWED', 'method_not_allowed')
  if (name === undefined) return failed(400, 'ERR_BAD_HOST', 'bad_host')
  const asked = findEdge(accounts, request.serverName)?.edge
  if (found?.edge.mutual_tls?.enabled && asked !== found.edge)
    return failed(421, 'ERR_MISDIRECTED', 'misdirected', { account: found.account.id, edge: found.edge.id })
  const route = found && findRoute(found.edge.routes, canonical(path))
  // The account is known from the route.
  const place = found && { edge: found.edge.id, ...(route && { account: found.account.id, route: route.id }) }
  if (/%2f|%5c|\\/i.test(path)) {
    const literal = found && findRoute(found.edge.routes, decodedBetweenSeparators(path))
    const isPlain = withoutDots(path) === path && !path.includes(';')
    if (route?.encoded_slashes !== 'allow' || literal !== route || !isPlain)
      return failed(400, 'ERR_AMBIGUOUS_PATH', 'ambiguous_path', place)
  }
  if (!found || !route) return failed(404, 'ERR_NO_ROUTE', 'no_route', place)
  if (asked !== found.edge) return failed(421, 'ERR_MISDIRECTED', 'misdirected', place)
  const expected = atRoute(found.account, found.edge, route, request, now)
  return withResponseHeaders(expected, route, corsHeaders(request, route, expected.isPreflight))
}

function atRoute(account: Account, edge: HttpsEdge, route: Route, request: HttpRequest, now: number): Expected {
  const { method, source } = request
  const [path = '', ...query] = request.target.split('?')
  const place = { account: account.id, edge: edge.id, route: route.id }
  const { refused, warned, hits, warnings } = evaluate(
    account,
    route.ip_restriction,
    source,
    now,
    guards(edge, path, route).map(({ id, ip_restriction }) => ({ route: id, ip_restriction })),
  )
  const verdict = { hits, warnings, served: route.id }
  if (refused) return { ...verdict, status: 403, errorCode: 'ERR_IP_REFUSED', counted: { ...place, ...refused } }
  const fails = {
    user_agent_filter: route.user_agent_filter?.enabled && !userAgentPasses(route.user_agent_filter, request),
    methods: route.methods?.enabled && !passes(route.methods, (entry) => entry === method),
  }
  const preflight = preflightOf(request, route)
  if (preflight) fails.methods = false
  const failing = (['user_agent_filter', 'methods'] as const).filter((name) => fails[name])
  const [reason] = failing.filter((name) => route[name]?.mode === 'enforce')
  const [status, code] = reason === 'methods' ? [405, 'ERR_METHOD_REFUSED'] : [403, 'ERR_USER_AGENT_REFUSED']
  if (reason) return { ...verdict, status, errorCode: code, counted: { outcome: 'refused', reason, ...place } }
  const warning = failing[0] && { outcome: 'warned' as const, reason: failing[0] }
  const counted: Counted = { ...(warned ?? { outcome: 'allowed' }), ...warning, ...place }
  if (preflight === 'refused')
    return {
      ...verdict,
      ...{ status: 403, errorCode: 'ERR_CORS_REFUSED', counted: { outcome: 'refused', reason: 'cors', ...place } },
    }
  if (preflight) return { ...verdict, status: 204, isPreflight: true, response: { headers: [], body: '' }, counted }
  if (route.redirect?.enabled) {
    const { status_code, ...redirect } = route.redirect
    const location = locationOf(redirect, forwardedPath(path), query)
    const response = { headers: [['location', location]] as Header[], body: '' }
    return { ...verdict, status: status_code, response, counted }
  }
  const isWebSocket =
    request.protocol === '1.1' && request.headers.some(([name, value]) => name === 'Upgrade' && value === 'websocket')
  const choice: Choice = route.backend?.enabled
    ? choose(account, route.backend.backend_id)
    : { ports: [], failure: 'no_backend' }
  const forwardedTo = route.rewrite?.enabled ? rewritten(route.rewrite, forwardedPath(path)) : forwardedPath(path)
  if (forwardedTo === undefined && !choice.response && !['no_backend', 'all_down'].includes(choice.failure ?? ''))
    return { ...failed(400, 'ERR_AMBIGUOUS_PATH', 'ambiguous_path', place), ...verdict }
  if (isWebSocket && !route.websocket && !choice.response && choice.failure !== 'no_backend')
    return { ...failed(400, 'ERR_NO_WEBSOCKET', 'no_websocket', place), ...verdict }
  if (choice.failure) {
    const code = choice.failure === 'all_down' ? 'ERR_NO_HEALTHY_BACKEND' : 'ERR_NO_BACKEND'
    return { ...failed(503, code, choice.failure, place), ...verdict }
  }
  // Without RFC 8441 at the upstream.
  if (isWebSocket && choice.isHttp2) return { ...failed(502, 'ERR_BAD_GATEWAY', 'no_response', place), ...verdict }
  if (choice.response) {
    const { status_code, headers, body } = choice.response
    const own: Header[] = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
    if (body && !own.some(([name]) => name === 'content-type')) own.push(['content-type', 'text/plain; charset=utf-8'])
    const response = { headers: own.sort(byName), body: method === 'HEAD' ? '' : body }
    return { ...verdict, status: status_code, response, counted }
  }
  const target = [forwardedTo, ...query].join('?')
  const headers = forwardedHeaders(request, edge, route, isWebSocket)
  const forwarded = { ports: choice.ports, target, method, headers }
  return { ...verdict, status: isWebSocket ? 101 : 200, forwarded, counted }
}

/** Undefined if the client gets in. What is refused in the handshake has no request. */
export function expectHandshake(
  accounts: readonly Account[],
  { serverName, client }: Pick<HttpRequest, 'serverName' | 'client'>,
): Counted | undefined {
  const found = findEdge(accounts, serverName)
  const reason = found && handshakeFault(found.edge.mutual_tls, client)
  return reason ? { outcome: 'refused', reason, account: found.account.id, edge: found.edge.id } : undefined
}

/** An address as the host takes precedence over a name. */
export function expectTcp(accounts: readonly Account[], { source, address, port }: TcpConnection, now: number) {
  const found = (pattern: (hostport: string) => boolean) =>
    accounts.flatMap((account) =>
      account.tcp.filter(({ hostports }) => hostports.some(pattern)).map((edge) => ({ account, edge })),
    )[0]
  const isAddress = (hostport: string) => /^[\d.]+:\d+$|^\[/.test(hostport)
  const { account, edge } =
    found((hostport) => hostport === `${address}:${port}`) ??
    found((hostport) => !isAddress(hostport) && hostport.endsWith(`:${port}`)) ??
    {}
  if (!account || !edge) return undefined
  const place = { account: account.id, edge: edge.id }
  const { refused, warned, ...verdict } = evaluate(account, edge.ip_restriction, source, now)
  if (refused) return { ...verdict, counted: { ...refused, ...place } }
  const choice: Choice = edge.backend?.enabled
    ? choose(account, edge.backend.backend_id)
    : { ports: [], failure: 'no_backend' }
  if (choice.failure) return { ...verdict, counted: { outcome: 'failed' as const, reason: choice.failure, ...place } }
  return { ...verdict, ports: choice.ports, counted: { ...(warned ?? { outcome: 'allowed' as const }), ...place } }
}
