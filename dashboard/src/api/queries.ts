import { queryOptions, replaceEqualDeep, useQueryClient } from '@tanstack/react-query'
import type { PlainListPath, RowOf } from '../../../clients/typescript/src/client.ts'
import { $api, answerOf, api, type Shapes } from './client.ts'
import { every } from './every.ts'

type StatisticsRange = { ms: number; step: 'minute' | 'hour' | 'day'; stepMs: number }
type StatisticsScope = { edge_id?: string; route_id?: string; backend_id?: string }

/** What an account has beyond that is for the API: see `isCut`. */
const mostRows = 12_000
/** Whether a list goes on after what was read of it. */
export const isCut = (rows: readonly unknown[]): boolean => rows.length >= mostRows

/** To keep rows that are the same, so that they are not drawn again, costs a look at each: not worth it in long lists. */
const keepRows = (before: unknown, after: unknown): unknown =>
  Array.isArray(after) && after.length > 1_000 ? after : replaceEqualDeep(before, after)

/** How things are changes by itself. A long list takes many requests, so it is read again less often. */
const statusEvery = ({ state: { data } }: { state: { data: readonly unknown[] | undefined } }): number =>
  every(data && data.length > 1_000 ? 300_000 : 20_000)()

/** What is on its way may be halted at any second; nothing happens to what has reached all waves. */
function newsEveryMs(rollout: Shapes['RolloutDetails'] | undefined): number | false {
  // A node may say later than others that it has the changes.
  if (rollout?.state === 'released') return rollout.nodes.every(({ has_changes }) => has_changes) ? false : 5_000
  const isSettled = rollout?.state === 'halted' && rollout.nodes.every(({ has_previous }) => has_previous)
  return isSettled || rollout?.state === 'waiting' ? 5_000 : 1_500
}

/** The same for one thing. It is followed more closely while a change of it is on its way. */
export const statusOfOneEveryMs = ({
  state: { data },
}: {
  state: { data?: { status?: Shapes['Status'] } | undefined }
}) => (data?.status?.rollout ? 5_000 : 15_000)

/** A list of things that have a status. */
const withStatus = <Options extends object>(options: Options) => ({ ...options, refetchInterval: statusEvery })

/** A list followed to its end: what a page shows whole, or offers to choose from. */
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

/** The reads that several pages share. */
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
  /** The newest hundred. */
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
  /** Those that someone has to decide about. An account without waves has none, and is asked less often. */
  haltedRollouts: () =>
    $api.queryOptions(
      'get',
      '/rollouts',
      { params: { query: { state: 'halted', limit: 20 } } },
      { refetchInterval: every(20_000) },
    ),
  /** The newest, with those on their way. */
  rollouts: () =>
    $api.queryOptions(
      'get',
      '/rollouts',
      { params: { query: { limit: 20 } } },
      { refetchInterval: ({ state: { data } }) => (data?.rollouts.length === 0 ? every(60_000)() : every(20_000)()) },
    ),
  /** One, as often as something may happen to it. */
  rollout: (id: string) =>
    queryOptions({
      queryKey: ['get', '/rollouts/{id}', id],
      queryFn: async () => {
        const { data, response } = await api.GET('/rollouts/{id}', { params: { path: { id } } })
        return { rollout: data, etag: response.headers.get('etag') ?? '' }
      },
      refetchInterval: ({ state: { data } }) => newsEveryMs(data?.rollout),
    }),
  /** What this person is putting together from forms: see draft/store.ts. */
  drafts: () =>
    queryOptions({
      queryKey: ['get', '/change_sets', 'drafts'],
      queryFn: async () => (await import('../draft/store.ts')).readDrafts(),
    }),
  /** Someone may have to act within a minute. */
  unconfirmed: () =>
    $api.queryOptions(
      'get',
      '/change_sets',
      { params: { query: { unconfirmed: true, limit: 5 } } },
      { refetchInterval: every(10_000) },
    ),
  /** As many steps as fit, including the current one, each time they are read. */
  statistics: (name: string, { ms, step, stepMs }: StatisticsRange, scope: StatisticsScope) =>
    queryOptions({
      queryKey: ['get', '/traffic_statistics', name, scope],
      queryFn: () => {
        const since = new Date(Date.now() - ms + stepMs).toISOString()
        return answerOf(api.GET('/traffic_statistics', { params: { query: { ...scope, since, step } } }))
      },
      refetchInterval: every(step === 'minute' ? 10_000 : 60_000),
    }),
  /** The newest changes, for admins. */
  changes: () => $api.queryOptions('get', '/audit_events', { params: { query: { limit: 100 } } }),
  /** For admins. */
  newlyRefused: () => $api.queryOptions('get', '/newly_refused_addresses', {}, { refetchInterval: every(20_000) }),
  /** What each node says about each upstream. */
  health: () => $api.queryOptions('get', '/backend_health', {}, { refetchInterval: every(10_000) }),
}

/** Reads everything again whose path begins with this one, such as an edge, its routes and the list of edges. */
export function useRefresh() {
  const client = useQueryClient()
  return (prefix: string) =>
    client.invalidateQueries({ predicate: ({ queryKey: [, path] }) => String(path).startsWith(prefix) })
}
