import createQueryClient from 'openapi-react-query'
import { createClient, type Shapes } from '../../../clients/typescript/src/client.ts'
import { noteGeneration } from './generation.ts'
import { problemOf } from './problem.ts'

export type { Shapes }

/** The only way to the API. Same origin, with the session's cookie, and the header that no other site can send. */
export const api = createClient({
  url: location.origin,
  // TanStack Query repeats what is worth repeating, and people repeat the rest.
  retries: 0,
  // A large rule set on a slow line takes its time.
  timeoutMs: 600_000,
})
api.http.use({
  onResponse({ response }) {
    const generation = response.headers.get('Service-Generation')
    if (generation) noteGeneration(Number(generation))
  },
  // TanStack Query aborts queries that are no longer needed; that is not a problem of the service.
  onError: ({ request, error }) => (request.signal.aborted ? undefined : problemOf(error)),
})

/** Reads: `$api.useQuery('get', '/caller')`. The key of a query is its method, path and parameters. */
export const $api = createQueryClient(api.http)

/** What a change was answered with. Problems are thrown. */
export const answerOf = async <Call extends Promise<{ data: unknown }>>(call: Call): Promise<Awaited<Call>['data']> =>
  (await call).data
