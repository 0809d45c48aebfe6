import type { Cidr } from '../../../kernel/ip/cidr.ts'
import { ask } from '../process/runtime.ts'
import { type Limits, limitsOf, type ProxySettings } from '../settings.ts'
import { among } from './client_address.ts'

export const limitNames = ['source', 'edge', 'account', 'websockets', 'rate_limit'] as const
export type LimitName = (typeof limitNames)[number]

/**
 * A client with an IPv6 address usually has its /64. `ipmask` would turn one with an IPv4 address in it into that address,
 * whose share it would use up.
 */
export const embedsIpv4 = '{ src 2002::/16 ::/96 }'
const trackSource = (rule: string, counter: string, table: string, conditions: string[]): string => `
  ${rule} ${counter} src,ipmask(32,64) table ${table}${when(...conditions, `!${embedsIpv4}`)}
  ${rule} ${counter} src,hex,bytes(0,16) table ${table}${when(...conditions, embedsIpv4)}`
const notAmong = (networks: readonly Cidr[]): string[] => (networks.length > 0 ? [`!${among(networks)}`] : [])
const when = (...conditions: string[]): string => (conditions.length > 0 ? ` if ${conditions.join(' ')}` : '')

/** A table whose entries last while something with their key is open, and for the given time after that. */
export const tableOfOpen = (name: string, type: string, size: number, expire = '10s'): string =>
  `backend ${name}\n  stick-table type ${type} size ${size} expire ${expire} store conn_cur\n`

/**
 * Every connection holds at most one entry of a table, so none of them fills up: an entry that could not be made would
 * be a connection without a limit.
 */
export const limitTables = ({ maxconn }: ProxySettings): string => {
  const size = Math.max(10_000, 2 * maxconn)
  return [
    tableOfOpen('limit_source', 'string len 40', size),
    tableOfOpen('limit_source_requests', 'string len 40', size),
    tableOfOpen('limit_edge', 'string len 40', size),
    tableOfOpen('limit_account', 'string len 40', size),
    // Never expires: these are the counters of /metrics.
    'backend limit_refused\n  stick-table type string len 10 size 10 store gpc0,gpc0_rate(1s)\n',
  ].join('\n')
}

/** A flood of connections costs no more lines than that each second, for each limit. They are all counted. */
const toldPerSecond = 100
const tellSome = (rule: string) =>
  `\n  ${rule} do-log if { var(sess.over) -m found } { sc_gpc0_rate(4) le ${toldPerSecond} }`

/** Counts a refusal under the name of its limit. Only refused traffic pays for it. */
const counted = (rule: string, scope: 'sess' | 'txn', refusal: string) => `
  ${rule} track-sc4 var(${scope}.over) table limit_refused if { var(${scope}.over) -m found }
  ${rule} sc-inc-gpc0(4) if { var(${scope}.over) -m found }${scope === 'sess' ? tellSome(rule) : ''}
  ${rule} ${refusal} if { var(${scope}.over) -m found }`
/** For other rules that set `txn.over` to the name of a limit. */
export const refuseOver = (rule: string, refusal: string): string => counted(rule, 'txn', refusal)
const over = (rule: string, scope: 'sess' | 'txn', counter: number, name: LimitName, limit: number) =>
  `\n  ${rule} set-var(${scope}.over) str(${name}) if ${scope === 'txn' ? '{ var(txn.counted) -m found } ' : ''}{ sc_conn_cur(${counter}) gt ${limit} }`

/**
 * Before anything is looked up or negotiated: the cheapest answer to a flood is none. Behind a load balancer that speaks
 * the PROXY protocol the client is known a little later; a proxy that is trusted to name clients connects for all of them.
 */
export const limitSourceConnections = (settings: ProxySettings): string => {
  const { proxyProtocolFrom = [], trustedProxies = [] } = settings
  const { perSource, unlimitedSources } = limitsOf(settings)
  const counts = notAmong([...unlimitedSources, ...trustedProxies])
  const limit = (rule: string, ...conditions: string[]) =>
    `${trackSource(rule, 'track-sc0', 'limit_source', [...conditions, ...counts])}${over(rule, 'sess', 0, 'source', perSource)}${counted(rule, 'sess', 'reject')}`
  if (proxyProtocolFrom.length === 0) return limit('tcp-request connection')
  return limit('tcp-request connection', '!through_balancer') + limit('tcp-request session', 'through_balancer')
}

export const limitTcpEdge = (limits: Limits, edge: string, account: string): string => `
  tcp-request connection track-sc1 ${edge} table limit_edge
  tcp-request connection track-sc2 ${account} table limit_account${over('tcp-request connection', 'sess', 1, 'edge', limits.perEdge)}${over('tcp-request connection', 'sess', 2, 'account', limits.perAccount)}${counted('tcp-request connection', 'sess', 'reject')}`

/**
 * Many requests may share a connection, so they are counted themselves, each until its answer is complete. That takes
 * three look-ups in tables that threads share, so it begins when enough are in flight for a limit to be near: those before
 * it are at most half of the smallest limit, an equal part of it in each backend.
 */
export const enoughInFlight = (limits: Limits, backends: readonly string[]): number =>
  Math.floor(Math.min(limits.perSource, limits.perEdge, limits.perAccount) / 2 / backends.length)

export const manyInFlight = (limits: Limits, backends: readonly string[]): string =>
  backends.map((name) => `\n  acl many_in_flight be_conn(${name}) ge ${enoughInFlight(limits, backends)}`).join('')

/** `of`: the conditions under which this request is one to count, `orElse`: others that need not be many. */
export const limitRequests = (
  limits: Limits,
  of: string,
  edge: string,
  account: string,
  refusal: string,
  orElse = '',
): string => {
  const isCounted = '{ var(txn.counted) -m found }'
  return `
  http-request set-var(txn.counted) bool(true) if ${of} many_in_flight${orElse}${trackSource('http-request', 'track-sc3', 'limit_source_requests', [isCounted, ...notAmong(limits.unlimitedSources)])}
  http-request track-sc1 ${edge} table limit_edge${when(isCounted)}
  http-request track-sc2 ${account} table limit_account${when(isCounted)}${over('http-request', 'txn', 3, 'source', limits.perSource)}${over('http-request', 'txn', 1, 'edge', limits.perEdge)}${over('http-request', 'txn', 2, 'account', limits.perAccount)}${counted('http-request', 'txn', refusal)}`
}

/**
 * For /metrics, of the present worker: what older ones counted went with them. Empty while HAProxy is away, because zero
 * would be wrong.
 */
export async function usageMetrics({ runtimeSocket }: Pick<ProxySettings, 'runtimeSocket'>) {
  const info = await ask(runtimeSocket, 'show info').catch(() => undefined)
  const table = await ask(runtimeSocket, 'show table limit_refused').catch(() => undefined)
  if (info === undefined || table === undefined) return {}
  const figure = (name: string) => Number(new RegExp(`^${name}: (\\d+)$`, 'm').exec(info)?.[1] ?? 0)
  const refused = (name: LimitName) => Number(new RegExp(` key=${name} .*gpc0=(\\d+)`).exec(table)?.[1] ?? 0)
  return {
    gatehouse_edge_connections: figure('CurrConns'),
    gatehouse_edge_max_connections: figure('Maxconn'),
    ...Object.fromEntries(
      limitNames.map((name) => [`gatehouse_edge_over_limit_total{limit="${name}"}`, refused(name)]),
    ),
  }
}
