import { queryOptions, replaceEqualDeep, useQueryClient } from '@tanstack/react-query'
import { $api, answerOf, api } from './client.ts'

type Page<Row> = { rows: Row[]; next_page_uri: string | null }

/** 12,000 rows. What an account has beyond that is for the API: see `isCut`. */
const mostPages = 120
const rowsPerPage = 100
/** Whether a list goes on after what was read of it. */
export const isCut = (rows: readonly unknown[]): boolean => rows.length >= mostPages * rowsPerPage

/** To keep rows that are the same, so that they are not drawn again, costs a look at each: not worth it in long lists. */
const keepRows = (before: unknown, after: unknown): unknown =>
  Array.isArray(after) && after.length > 1_000 ? after : replaceEqualDeep(before, after)

/** How things are changes by itself. A long list takes many requests, so it is read again less often. */
const statusEveryMs = ({ state: { data } }: { state: { data: readonly unknown[] | undefined } }): number =>
  data && data.length > 10 * rowsPerPage ? 300_000 : 15_000

/** A list of things that have a status. */
const withStatus = <Options extends object>(options: Options) => ({ ...options, refetchInterval: statusEveryMs })

/** A list followed to its end: what a page shows whole, or offers to choose from. */
const wholeList = <Row extends { id: string }>(path: string, read: (before_id?: string) => Promise<Page<Row>>) =>
  queryOptions({
    queryKey: ['get', path, 'whole'],
    structuralSharing: keepRows,
    queryFn: async () => {
      const all: Row[] = []
      for (let pages = 0; pages < mostPages; pages++) {
        const { rows, next_page_uri } = await read(all.at(-1)?.id)
        all.push(...rows)
        if (next_page_uri === null) break
      }
      return all
    },
  })

const from = (before_id?: string) => ({ params: { query: { before_id } } })

/** The reads that several pages share. */
export const queries = {
  users: () =>
    wholeList('/users', async (before) => {
      const { users: rows, next_page_uri } = await answerOf(api.GET('/users', from(before)))
      return { rows, next_page_uri }
    }),
  bots: () =>
    wholeList('/bot_users', async (before) => {
      const { bot_users: rows, next_page_uri } = await answerOf(api.GET('/bot_users', from(before)))
      return { rows, next_page_uri }
    }),
  keys: () =>
    wholeList('/api_keys', async (before) => {
      const { keys: rows, next_page_uri } = await answerOf(api.GET('/api_keys', from(before)))
      return { rows, next_page_uri }
    }),
  identities: () =>
    wholeList('/identities', async (before) => {
      const { identities: rows, next_page_uri } = await answerOf(api.GET('/identities', from(before)))
      return { rows, next_page_uri }
    }),
  policies: () =>
    wholeList('/ip_policies', async (before) => {
      const { ip_policies: rows, next_page_uri } = await answerOf(api.GET('/ip_policies', from(before)))
      return { rows, next_page_uri }
    }),
  restrictions: () =>
    wholeList('/ip_restrictions', async (before) => {
      const { ip_restrictions: rows, next_page_uri } = await answerOf(api.GET('/ip_restrictions', from(before)))
      return { rows, next_page_uri }
    }),
  tcpEdges: () =>
    withStatus(
      wholeList('/edges/tcp', async (before) => {
        const { tcp_edges: rows, next_page_uri } = await answerOf(api.GET('/edges/tcp', from(before)))
        return { rows, next_page_uri }
      }),
    ),
  httpsEdges: () =>
    withStatus(
      wholeList('/edges/https', async (before) => {
        const { https_edges: rows, next_page_uri } = await answerOf(api.GET('/edges/https', from(before)))
        return { rows, next_page_uri }
      }),
    ),
  backends: () =>
    withStatus(
      wholeList('/backends/static', async (before) => {
        const { backends: rows, next_page_uri } = await answerOf(api.GET('/backends/static', from(before)))
        return { rows, next_page_uri }
      }),
    ),
  weightedBackends: () =>
    withStatus(
      wholeList('/backends/weighted', async (before) => {
        const { backends: rows, next_page_uri } = await answerOf(api.GET('/backends/weighted', from(before)))
        return { rows, next_page_uri }
      }),
    ),
  failoverBackends: () =>
    withStatus(
      wholeList('/backends/failover', async (before) => {
        const { backends: rows, next_page_uri } = await answerOf(api.GET('/backends/failover', from(before)))
        return { rows, next_page_uri }
      }),
    ),
  responseBackends: () =>
    wholeList('/backends/http_response', async (before) => {
      const { backends: rows, next_page_uri } = await answerOf(api.GET('/backends/http_response', from(before)))
      return { rows, next_page_uri }
    }),
  domains: () =>
    withStatus(
      wholeList('/reserved_domains', async (before) => {
        const { reserved_domains: rows, next_page_uri } = await answerOf(api.GET('/reserved_domains', from(before)))
        return { rows, next_page_uri }
      }),
    ),
  certificates: () =>
    withStatus(
      wholeList('/tls_certificates', async (before) => {
        const { tls_certificates: rows, next_page_uri } = await answerOf(api.GET('/tls_certificates', from(before)))
        return { rows, next_page_uri }
      }),
    ),
  webhooks: () =>
    withStatus(
      wholeList('/webhook_destinations', async (before) => {
        const { webhook_destinations: rows, next_page_uri } = await answerOf(
          api.GET('/webhook_destinations', from(before)),
        )
        return { rows, next_page_uri }
      }),
    ),
  cells: () => $api.queryOptions('get', '/cells'),
  nodes: () => $api.queryOptions('get', '/edge_nodes', {}, { refetchInterval: 5_000 }),
  activity: (hours = 24) =>
    $api.queryOptions(
      'get',
      '/ip_activity',
      { params: { query: { hours } } },
      { refetchInterval: hours > 24 ? 60_000 : 5_000 },
    ),
  /** For admins. */
  newlyRefused: () => $api.queryOptions('get', '/newly_refused_addresses', {}, { refetchInterval: 15_000 }),
  /** What each node says about each upstream. */
  health: () => $api.queryOptions('get', '/backend_health', {}, { refetchInterval: 10_000 }),
}

/** Reads everything again whose path begins with this one, such as an edge, its routes and the list of edges. */
export function useRefresh() {
  const client = useQueryClient()
  return (prefix: string) =>
    client.invalidateQueries({ predicate: ({ queryKey: [, path] }) => String(path).startsWith(prefix) })
}
