import createClient from 'openapi-fetch'
import createQueryClient from 'openapi-react-query'
import type { components, paths } from '../generated/openapi.d.ts'
import { noteGeneration } from './generation.ts'
import { problemOf, unreachable } from './problem.ts'

export type Shapes = components['schemas']

/** The only way to the API. Same origin, with the session's cookie, and the header that no other site can send. */
export const api = createClient<paths>({
  baseUrl: location.origin,
  credentials: 'same-origin',
  headers: { 'Service-Version': '2', Accept: 'application/json' },
})
api.use({
  async onResponse({ response }) {
    if (!response.ok) throw problemOf(response.status, await response.json().catch(() => undefined))
    const generation = response.headers.get('Service-Generation')
    if (generation) noteGeneration(Number(generation))
  },
  // TanStack Query aborts queries that are no longer needed; that is not a problem of the service.
  onError: ({ request }) => (request.signal.aborted ? undefined : unreachable()),
})

/** Reads: `$api.useQuery('get', '/caller')`. The key of a query is its method, path and parameters. */
export const $api = createQueryClient(api)

/** What a change was answered with. Problems are thrown. */
export async function answerOf<Data>(call: Promise<{ data?: Data }>): Promise<Data> {
  const { data } = await call
  return data as Data
}
