import createQueryClient from 'openapi-react-query'
import { createClient, type Shapes } from '../../../clients/typescript/src/client.ts'
import { fetchTogether } from './gather.ts'
import { noteChange } from './generation.ts'
import { problemOf } from './problem.ts'

export type { Shapes }

/** The only client of the API: same origin, with the session's cookie and a header that other sites cannot send. */
const options = {
  url: location.origin,
  // TanStack Query retries where useful, and people retry the rest.
  retries: 0,
  // A large rule set takes long on a slow connection.
  timeoutMs: 600_000,
}
export const api = createClient({ ...options, fetch: fetchTogether })
export type Api = typeof api
/** A client for dry runs: each call resolves to the effect that the change would have. */
const trial = createClient(options)
trial.http.use({
  onRequest: ({ request }) => withFlag(request, 'dry_run'),
  onError: ({ request, error }) => (request.signal.aborted ? undefined : problemOf(error)),
})
export const tryOut = async (change: (on: Api) => Promise<unknown>): Promise<Shapes['DryRunResult']> =>
  (await change(trial)) as Shapes['DryRunResult']

/** The last change that access tests refused, and whether its next attempt ignores them. */
let refused: { change: string; isIgnored: boolean } | undefined
const changeIn = ({ method, url }: Request): string => `${method} ${new URL(url).pathname}`
/** Makes the next attempt at the refused change ignore access tests. */
export function ignoreAccessTestsOnce(): void {
  if (refused) refused.isIgnored = true
}

type Sent = { request: Request; schemaPath: string; params: { path?: object; query?: object } }
/** Resolves to the response for a recorded change, and to undefined for a read. */
type Recorder = (sent: Sent) => Promise<Response | undefined>
let recorder: Recorder | undefined
export const isRecording = (): boolean => recorder !== undefined

/** Redirects changes to the recorder instead of sending them. Only one form can make changes while it is open. */
export async function recording(to: Recorder, save: () => Promise<unknown>): Promise<void> {
  recorder = to
  try {
    await save()
  } finally {
    recorder = undefined
  }
}

/** Requests that only read, draft, or concern the session or earlier changes. */
const isNoChange =
  /^\/(ip_checks|dashboard_session|change_sets(\/[^/]+(\/(preview|approve|withdraw))?)?|rollouts\/[^/]+\/(halt|resume|release))$|\/(impact|revert)$/

async function withFlag(request: Request, flag: string): Promise<Request> {
  const url = new URL(request.url)
  url.searchParams.set(flag, 'true')
  const { method, headers, signal } = request
  // As text: browsers send stream bodies only over HTTP/2.
  const body = await request.text()
  return new Request(url, { method, headers, signal, ...(body && { body }) })
}

api.http.use({
  async onRequest({ request, schemaPath, params }) {
    if (recorder && request.method !== 'GET') {
      const answer = await recorder({ request, schemaPath, params })
      if (answer) return answer
    }
    if (!refused?.isIgnored || changeIn(request) !== refused.change) return undefined
    refused = undefined
    return withFlag(request, 'ignore_access_tests')
  },
  onResponse({ request, response }) {
    const operationId = response.headers.get('Operation-Id')
    if (!response.ok || request.method === 'GET' || !operationId || isNoChange.test(new URL(request.url).pathname))
      return
    const generation = response.headers.get('Service-Generation')
    noteChange({ operationId, generation: generation === null ? undefined : Number(generation) })
  },
  // TanStack Query aborts queries that are no longer needed; that is not a failure of the service.
  async onError({ request, error }) {
    if (request.signal.aborted) return undefined
    const problem = await problemOf(error)
    if (problem.code === 'ERR_ACCESS_TEST_FAILED') refused = { change: changeIn(request), isIgnored: false }
    return problem
  },
})

/** Reads: `$api.useQuery('get', '/caller')`. A query's key is its method, path and parameters. */
export const $api = createQueryClient(api.http)

/** Response to a change. Throws problems. */
export const answerOf = async <Call extends Promise<{ data: unknown }>>(call: Call): Promise<Awaited<Call>['data']> =>
  (await call).data
