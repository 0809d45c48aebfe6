import { queryOptions, replaceEqualDeep, useQueryClient } from '@tanstack/react-query'
import type { PlainListPath, RowOf } from '../../../clients/typescript/src/client.ts'
import { $api, answerOf, api, type Shapes } from './client.ts'
import { every } from './every.ts'

type StatisticsRange = { ms: number; step: 'minute' | 'hour' | 'day'; stepMs: number }
type StatisticsScope = { edge_id?: string; route_id?: string; backend_id?: string }

/** Limit of rows that the dashboard reads; see `isCut`. */
const mostRows = 12_000
/** Whether the list has more rows than were read. */
export const isCut = (rows: readonly unknown[]): boolean => rows.length >= mostRows

/** Keeps equal rows, so that they are not rendered again. Comparing long lists costs more than it saves. */
const keepRows = (before: unknown, after: unknown): unknown =>
  Array.isArray(after) && after.length > 1_000 ? after : replaceEqualDeep(before, after)

/** Statuses change by themselves. Long lists take many requests, so they are refreshed less often. */
const statusEvery = ({ state: { data } }: { state: { data: readonly unknown[] | undefined } }): number =>
  every(data && data.length > 1_000 ? 300_000 : 20_000)()

/** An open rollout may halt at any second; a finished one no longer changes. */
function newsEveryMs(rollout: Shapes['RolloutDetails'] | undefined): number | false {
  // A node may report the changes later than others.
  if (rollout?.state === 'released') return rollout.nodes.every(({ has_changes }) => has_changes) ? false : 5_000
  const isSettled = rollout?.state === 'halted' && rollout.nodes.every(({ has_previous }) => has_previous)
  return isSettled || rollout?.state === 'waiting' ? 5_000 : 1_500
}

/** Like `statusEvery`, for one resource, and more often while a change of it rolls out. */
export const statusOfOneEveryMs = ({
  state: { data },
}: {
  state: { data?: { status?: Shapes['Status'] } | undefined }
}) => (data?.status?.rollout ? 5_000 : 15_000)

/** A list of resources with a status. */
const withStatus = <Options extends object>(options: Options) => ({ ...options, refetchInterval: statusEvery })

/** A complete list, for pages that show all of it or offer choices from it. */
const wholeList = <Path extends PlainListPath>(path: Path) =>
  queryOptions({
    queryKey: ['get', path, 'whole'],
    structuralSharing: keepRows,
    queryFn: async () => {
      const all: RowOf<Path>[] = []
      for await (const row of api.list(path)) if (all.push(row) >= mostRows) break
      return all
    },
  })

/** Reads shared by several pages. */
export const queries = {
  users: () => wholeList('/users'),
  bots: () => wholeList('/bot_users'),
  keys: () => wholeList('/api_keys'),
  identities: () => wholeList('/identities'),
  policies: () => wholeList('/ip_policies'),
  restrictions: () => wholeList('/ip_restrictions'),
  accessTests: () => wholeList('/access_tests'),
  tcpEdges: () => withStatus(wholeList('/edges/tcp')),
  httpsEdges: () => withStatus(wholeList('/edges/https')),
  backends: () => withStatus(wholeList('/backends/static')),
  weightedBackends: () => withStatus(wholeList('/backends/weighted')),
  failoverBackends: () => withStatus(wholeList('/backends/failover')),
  responseBackends: () => wholeList('/backends/http_response'),
  domains: () => withStatus(wholeList('/reserved_domains')),
  certificates: () => withStatus(wholeList('/tls_certificates')),
  webhooks: () => withStatus(wholeList('/webhook_destinations')),
  cells: () => $api.queryOptions('get', '/cells'),
  nodes: () => $api.queryOptions('get', '/edge_nodes', {}, { refetchInterval: every(10_000) }),
  alertRules: () => withStatus(wholeList('/alert_rules')),
  /** The latest hundred. */
  firingAlerts: () =>
    $api.queryOptions('get', '/alerts', { params: { query: { state: 'firing' } } }, { refetchInterval: every(10_000) }),
  alerts: () => withStatus(wholeList('/alerts')),
  activity: (hours = 24) =>
    $api.queryOptions(
      'get',
      '/ip_activity',
      { params: { query: { hours } } },
      { refetchInterval: every(hours > 24 ? 60_000 : 10_000) },
    ),
  changeSets: () =>
    $api.queryOptions('get', '/change_sets', { params: { query: { limit: 100 } } }, { refetchInterval: every(20_000) }),
  /** Rollouts that await a decision. Accounts without waves have none, and poll less often. */
  haltedRollouts: () =>
    $api.queryOptions(
      'get',
      '/rollouts',
      { params: { query: { state: 'halted', limit: 20 } } },
      { refetchInterval: every(20_000) },
    ),
  /** The latest rollouts, including open ones. */
  rollouts: () =>
    $api.queryOptions(
      'get',
      '/rollouts',
      { params: { query: { limit: 20 } } },
      { refetchInterval: ({ state: { data } }) => (data?.rollouts.length === 0 ? every(60_000)() : every(20_000)()) },
    ),
  /** One rollout, polled as often as it may change. */
  rollout: (id: string) =>
    queryOptions({
      queryKey: ['get', '/rollouts/{id}', id],
      queryFn: async () => {
        const { data, response } = await api.GET('/rollouts/{id}', { params: { path: { id } } })
        return { rollout: data, etag: response.headers.get('etag') ?? '' }
      },
      refetchInterval: ({ state: { data } }) => newsEveryMs(data?.rollout),
    }),
  /** Drafts that this person assembles from forms; see draft/store.ts. */
  drafts: () =>
    queryOptions({
      queryKey: ['get', '/change_sets', 'drafts'],
      queryFn: async () => (await import('../draft/store.ts')).readDrafts(),
    }),
  /** Polled often, because someone may have to act within a minute. */
  unconfirmed: () =>
    $api.queryOptions(
      'get',
      '/change_sets',
      { params: { query: { unconfirmed: true, limit: 5 } } },
      { refetchInterval: every(10_000) },
    ),
  /** As many steps as fit, including the current one. The range is recomputed with each read. */
  statistics: (name: string, { ms, step, stepMs }: StatisticsRange, scope: StatisticsScope) =>
    queryOptions({
      queryKey: ['get', '/traffic_statistics', name, scope],
      queryFn: () => {
        const since = new Date(Date.now() - ms + stepMs).toISOString()
        return answerOf(api.GET('/traffic_statistics', { params: { query: { ...scope, since, step } } }))
      },
      refetchInterval: every(step === 'minute' ? 10_000 : 60_000),
    }),
  /** The latest changes, for admins. */
  changes: () => $api.queryOptions('get', '/audit_events', { params: { query: { limit: 100 } } }),
  /** For admins. */
  newlyRefused: () => $api.queryOptions('get', '/newly_refused_addresses', {}, { refetchInterval: every(20_000) }),
  /** What each node reports about each upstream. */
  health: () => $api.queryOptions('get', '/backend_health', {}, { refetchInterval: every(10_000) }),
}

/** Refreshes all reads whose path starts with this one, such as an edge, its routes and the list of edges. */
export function useRefresh() {
  const client = useQueryClient()
  return (prefix: string) =>
    client.invalidateQueries({ predicate: ({ queryKey: [, path] }) => String(path).startsWith(prefix) })
}
