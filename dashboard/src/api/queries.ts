import { queryOptions } from '@tanstack/react-query'
import { answerOf, api, everyPage } from './client.ts'

/** Every read of the dashboard, named once, so that a change knows what to read again. */
export const queries = {
  caller: () => queryOptions({ queryKey: ['caller'], queryFn: () => answerOf(api.GET('/caller')) }),

  people: () =>
    queryOptions({
      queryKey: ['people'],
      staleTime: 60_000,
      queryFn: async () => {
        const [users, bots] = await Promise.all([
          everyPage(async (before_id) => {
            const list = await answerOf(api.GET('/users', { params: { query: { before_id } } }))
            return { rows: list.users, more: list.next_page_uri !== null }
          }),
          everyPage(async (before_id) => {
            const list = await answerOf(api.GET('/bot_users', { params: { query: { before_id } } }))
            return { rows: list.bot_users, more: list.next_page_uri !== null }
          }),
        ])
        return [
          ...users.map(({ id, name, active }) => ({ id, name, active, kind: 'user' as const })),
          ...bots.map(({ id, name, active }) => ({ id, name, active, kind: 'bot' as const })),
        ]
      },
    }),

  policies: () =>
    queryOptions({
      queryKey: ['policies'],
      queryFn: () =>
        everyPage(async (before_id) => {
          const list = await answerOf(api.GET('/ip_policies', { params: { query: { before_id } } }))
          return { rows: list.ip_policies, more: list.next_page_uri !== null }
        }),
    }),

  restrictions: () =>
    queryOptions({
      queryKey: ['restrictions'],
      queryFn: () =>
        everyPage(async (before_id) => {
          const list = await answerOf(api.GET('/ip_restrictions', { params: { query: { before_id } } }))
          return { rows: list.ip_restrictions, more: list.next_page_uri !== null }
        }),
    }),

  tcpEdges: () =>
    queryOptions({
      queryKey: ['edges', 'tcp'],
      queryFn: () =>
        everyPage(async (before_id) => {
          const list = await answerOf(api.GET('/edges/tcp', { params: { query: { before_id } } }))
          return { rows: list.tcp_edges, more: list.next_page_uri !== null }
        }),
    }),

  httpsEdges: () =>
    queryOptions({
      queryKey: ['edges', 'https'],
      queryFn: () =>
        everyPage(async (before_id) => {
          const list = await answerOf(api.GET('/edges/https', { params: { query: { before_id } } }))
          return { rows: list.https_edges, more: list.next_page_uri !== null }
        }),
    }),

  /** One edge by its id: a list shows only so many. Under the list's key, so that changes of edges read it again too. */
  tcpEdge: (id: string) =>
    queryOptions({
      queryKey: ['edges', 'tcp', id],
      queryFn: () => answerOf(api.GET('/edges/tcp/{id}', { params: { path: { id } } })),
    }),
  httpsEdge: (id: string) =>
    queryOptions({
      queryKey: ['edges', 'https', id],
      queryFn: () => answerOf(api.GET('/edges/https/{id}', { params: { path: { id } } })),
    }),

  backends: () =>
    queryOptions({
      queryKey: ['backends'],
      queryFn: () =>
        everyPage(async (before_id) => {
          const list = await answerOf(api.GET('/backends/static', { params: { query: { before_id } } }))
          return { rows: list.backends, more: list.next_page_uri !== null }
        }),
    }),

  nodes: () =>
    queryOptions({
      queryKey: ['nodes'],
      refetchInterval: 5_000,
      queryFn: () => answerOf(api.GET('/edge_nodes')),
    }),

  generation: (generation: number) =>
    queryOptions({
      queryKey: ['generation', generation],
      queryFn: () =>
        answerOf(api.GET('/generations/{generation}', { params: { path: { generation: String(generation) } } })),
    }),

  activity: () =>
    queryOptions({
      queryKey: ['activity'],
      refetchInterval: 5_000,
      queryFn: () => answerOf(api.GET('/ip_activity', { params: { query: { hours: 24 } } })),
    }),

  lastChanges: () =>
    queryOptions({
      queryKey: ['audit', 'last'],
      refetchInterval: 15_000,
      queryFn: async () => {
        const { audit_events } = await answerOf(api.GET('/audit_events', { params: { query: { limit: 50 } } }))
        // Who signed in is in the audit, and would push everything else off so short a list.
        return audit_events.filter(({ operation }) => !operation.startsWith('dashboard_session.')).slice(0, 8)
      },
    }),
}
