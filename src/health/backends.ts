import { type BackendId, type BackendKind, backendKindOf } from '../kernel/edge/backends.ts'
import type { UpstreamStatus } from '../kernel/edge/edge_nodes.ts'
import { type Fleet, liveNodes, onNodes, silence } from './fleet.ts'
import {
  because,
  counted,
  degraded,
  down,
  listed,
  type Rollout,
  type Status,
  together,
  unknown,
  up,
  within,
  worstOf,
} from './status.ts'

/** The last report of a live node about one server of a backend. */
export type ServerReport = {
  readonly node: string
  /** As dialed by the node, with the port. */
  readonly address: string
  readonly status: UpstreamStatus
  readonly reason: string | null
  readonly since: string
}
export type BackendFacts = {
  readonly id: BackendId
  readonly kind: BackendKind
  readonly name: string
  readonly hasCheck: boolean
  /** An edge or a route sends traffic to it, directly or through a group. */
  readonly isUsed: boolean
  /** Members of a group, in order. */
  readonly members: readonly { readonly id: BackendId; readonly weight: number | null }[]
  /** Reports of live nodes only. */
  readonly reports: readonly ServerReport[]
}
export type BackendContext = {
  readonly fleet: Fleet
  readonly backends: ReadonlyMap<BackendId, BackendFacts>
  readonly withheld: ReadonlyMap<string, string>
  readonly rollouts: ReadonlyMap<string, Rollout>
  /**
   * Set for an edge, which all these cells serve, so every cell must have checked the backend. Other cells may not use
   * it.
   */
  readonly everyCell?: boolean
}

/** One server as all nodes see it. `reports`: at least one. */
export function serverStatus(reports: readonly ServerReport[]): Status {
  const failing = reports.filter(({ status }) => status !== 'up')
  const [first] = failing
  if (!first) return up(`It answers ${counted(reports.length, 'node')}.`, earliest(reports))
  const isEverywhere = failing.length === reports.length
  const nodes = isEverywhere ? '' : ` ${listed(failing.map(({ node }) => node))}`
  if (failing.every(({ status }) => status === 'failing'))
    return degraded(
      'servers_failing',
      `Requests${nodes && ` of${nodes}`} failed within the last five minutes${because(first.reason)}`,
      earliest(failing),
    )
  const text = `It does not answer${nodes}${because(first.reason)}`
  return isEverywhere && failing.every(({ status }) => status === 'down')
    ? down('servers_down', text, latest(failing))
    : degraded('servers_down', text, earliest(failing))
}

export const byServer = <Report extends { address: string }>(reports: readonly Report[]): Map<string, Report[]> =>
  Map.groupBy(reports, ({ address }) => address)

const earliest = (reports: readonly ServerReport[]): string | null =>
  reports.map(({ since }) => since).sort()[0] ?? null
const latest = (reports: readonly ServerReport[]): string | null =>
  reports
    .map(({ since }) => since)
    .sort()
    .at(-1) ?? null

const recordKinds: Record<BackendKind, string> = {
  static: 'backend',
  weighted: 'weighted',
  failover: 'failover',
  http_response: 'response',
}
/** Record key of the backend. */
export const backendKey = (id: BackendId): string => `${recordKinds[backendKindOf(id)]}.${id}`

export function backendStatus(id: BackendId, context: BackendContext): Status {
  const backend = context.backends.get(id)
  if (!backend) return down('backend_missing', 'The backend does not exist.')
  const { fleet } = context
  const nodes = onNodes(fleet, [backendKey(id)], context)
  if (nodes.state === 'down') return nodes
  return worstOf(ofKind[backend.kind](backend, context), nodes)
}

const ofKind: Record<BackendKind, (backend: BackendFacts, context: BackendContext) => Status> = {
  static: staticStatus,
  weighted: weightedStatus,
  failover: failoverStatus,
  http_response: (_backend, { fleet }) => silence(fleet) ?? up('Edge nodes send the response themselves.'),
}

function staticStatus(backend: BackendFacts, { fleet, everyCell }: BackendContext): Status {
  const { hasCheck, isUsed } = backend
  const silent = silence(fleet)
  if (silent) return silent
  const live = liveNodes(fleet)
  const reports = backend.reports.filter((report) => live.some(({ node }) => node === report.node))
  const [first, ...others] = [...byServer(reports).entries()].map(([address, each]) =>
    within(address, serverStatus(each)),
  )
  if (!first) {
    if (!isUsed) return unknown('not_used', 'No edge or route uses it, so edge nodes do not check it.')
    return hasCheck
      ? unknown('not_checked_yet', 'No edge node has reported the result of a check yet.')
      : unknown('not_checked', 'It has no health check, so edge nodes only notice requests that fail.')
  }
  const found = together(first, ...others)
  if (found.state !== 'up') return amongServers(found, [first, ...others])
  if (!hasCheck) return unknown('not_checked', 'It has no health check, so edge nodes only notice requests that fail.')
  const heard = new Set(reports.map(({ node }) => node))
  const checking = new Set(live.filter(({ node }) => heard.has(node)).map(({ cell }) => cell))
  const unheard = live.filter(({ node, cell }) => !heard.has(node) && (everyCell || checking.has(cell)))
  if (unheard.length > 0)
    return unknown(
      'not_checked_yet',
      `${listed(unheard.map(({ node }) => node))} did not report the result of a check yet.`,
    )
  const servers = 1 + others.length
  return up(servers === 1 ? 'Its server answers every node.' : `All ${servers} servers answer every node.`, first.since)
}

/** With several servers, the number of affected ones matters more than the fault of the first. */
function amongServers(found: Status, servers: readonly Status[]): Status {
  if (servers.length === 1) return found
  const affected = servers.filter(({ state }) => state !== 'up').length
  return { ...found, reason: `${affected} of ${servers.length} servers affected. ${found.reason}` }
}

const memberStatus = (id: BackendId, context: BackendContext): Status =>
  within(context.backends.get(id)?.name ?? id, backendStatus(id, context))

function weightedStatus({ members }: BackendFacts, context: BackendContext): Status {
  const [first, ...others] = members.filter(({ weight }) => weight !== 0).map(({ id }) => memberStatus(id, context))
  if (!first) return down('no_weight', 'No backend in the group has a weight above 0, so none gets traffic.')
  const found = together(first, ...others)
  return found.state === 'up' ? up(`All ${1 + others.length} backends of the group answer.`, found.since) : found
}

/** The first member that works gets all traffic, so later ones matter only as a fallback. */
function failoverStatus({ members }: BackendFacts, context: BackendContext): Status {
  const [first, ...others] = members.map(({ id }) => memberStatus(id, context))
  if (!first) return down('no_backend', 'The group has no backends.')
  const found = together(first, ...others)
  if (first.state !== 'down' || found.state === 'down')
    return found.state === 'up' ? up('Its first backend answers.', first.since) : found
  return degraded('on_fallback', `It runs on a fallback. ${first.reason}`, first.since)
}
