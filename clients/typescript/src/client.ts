import createFetchClient, { type Client, type FetchResponse, type MaybeOptionalInit } from 'openapi-fetch'
import { type Applied, generationOf } from './applied.ts'
import { keyedPosts } from './generated/keyed_posts.ts'
import type { components, paths } from './generated/openapi.ts'
import { nextQuery } from './pages.ts'
import { createSend, type SendOptions, sleep } from './send.ts'

export type Shapes = components['schemas']
type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'
type Operation = { responses: object }
type PathWith<M extends Method> = {
  [Path in keyof paths]: paths[Path][M] extends Operation ? Path : never
}[keyof paths]
type Init<Path extends keyof paths, M extends Method> = NonNullable<MaybeOptionalInit<paths[Path], M>>
type RequiredKeys<Options> = {
  [Key in keyof Options]-?: object extends Pick<Options, Key> ? never : Key
}[keyof Options]
/** Options need not be given where none is required. */
type Given<Options> = RequiredKeys<Options> extends never ? [Options?] : [Options]
type ParseAs = 'json' | 'text' | 'blob' | 'arrayBuffer' | 'stream'
type Answer<Asked, As extends ParseAs> = Asked extends Operation
  ? {
      data: Extract<FetchResponse<Asked, { parseAs: As }, `${string}/${string}`>, { error?: never }>['data']
      response: Response
    }
  : never
/** Its options are not inferred, unlike openapi-fetch's: only so does the compiler find fields that do not exist. */
type Call<M extends Method> = <Path extends PathWith<M>, As extends ParseAs = 'json'>(
  path: Path,
  ...options: Given<Init<Path, M> & { parseAs?: As }>
) => Promise<Answer<paths[Path][M], As>>

type Page<Path extends keyof paths> = paths[Path]['get'] extends {
  responses: { 200: { content: { 'application/json': infer Body extends { next_page_uri: string | null } } } }
}
  ? Body
  : never
/** The paths of lists. */
export type ListPath = { [Path in keyof paths]: Page<Path> extends never ? never : Path }[keyof paths]
/** Those without parameters in their path. */
export type PlainListPath = Exclude<ListPath, `${string}{${string}`>
export type RowOf<Path extends ListPath> = {
  [Field in keyof Page<Path>]: Page<Path>[Field] extends readonly (infer Row)[] ? Row : never
}[keyof Page<Path>]

/** The operations of openapi.json. Each resolves to its data, or throws a GatehouseError, a SentForApprovalError or a ConnectionError. */
export type GatehouseClient = {
  readonly GET: Call<'get'>
  readonly POST: Call<'post'>
  readonly PUT: Call<'put'>
  readonly PATCH: Call<'patch'>
  readonly DELETE: Call<'delete'>
  /** All rows of a list, page by page as they are asked for. */
  readonly list: {
    <Path extends PlainListPath>(path: Path, options?: Init<Path, 'get'>): AsyncGenerator<RowOf<Path>>
    <Path extends ListPath>(path: Path, options: Init<Path, 'get'>): AsyncGenerator<RowOf<Path>>
  }
  /** Resolves when every live edge node has applied a change, given its response or generation. */
  readonly waitApplied: (change: Response | number, options?: WaitOptions) => Promise<Applied | undefined>
  /** The client of openapi-fetch underneath, for middleware and for libraries that take one. */
  readonly http: Client<paths>
}
export type WaitOptions = {
  readonly timeoutMs?: number
  /** How many nodes must be live: a change that no node has is in force nowhere. Default 1. */
  readonly minNodes?: number
  readonly signal?: AbortSignal
}

/** The change was made, and is not known to be in force everywhere. */
export class NotAppliedError extends Error {
  override readonly name = 'NotAppliedError'
  readonly applied: Applied

  constructor(applied: Applied) {
    const { generation, live, behind } = applied
    super(
      `The change was made, but ${applied.applied}/${live} live edge nodes have applied generation ${generation}.` +
        (behind.length ? ` Behind: ${behind.join(', ')}.` : ''),
    )
    this.applied = applied
  }
}

export function createClient(options: SendOptions): GatehouseClient {
  const send = createSend(options)
  /** A creation is repeatable once it has a key, which it needs only if it may be repeated. */
  const repeatable = new WeakSet<Request>()
  const http = createFetchClient<paths>({
    baseUrl: options.url,
    fetch: (request) => send(request, request.method !== 'POST' || repeatable.has(request)),
  })
  http.use({
    onRequest({ request, schemaPath }) {
      if (request.method !== 'POST' || !keyedPosts.has(schemaPath) || options.retries === 0) return
      if (!request.headers.has('Idempotency-Key')) request.headers.set('Idempotency-Key', newKey())
      repeatable.add(request)
    },
  })
  return { ...(http as unknown as GatehouseClient), http, list: listWith(http), waitApplied: waitWith(http) }
}

/** Not randomUUID, which browsers have on secure pages only. */
const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')

type AnyPage = { next_page_uri: string | null } & Record<string, unknown>

function listWith(http: Client<paths>): GatehouseClient['list'] {
  return async function* rows<Path extends ListPath>(path: Path, options?: Init<Path, 'get'>) {
    const given = (options ?? {}) as { params?: { query?: object } }
    for (let query: object | undefined = given.params?.query ?? {}; query; ) {
      // The types say above what a list is; here it is any.
      const { data } = await http.request('get', path as '/api_keys', { ...given, params: { ...given.params, query } })
      const page = data as unknown as AnyPage
      yield* Object.values(page).find(Array.isArray) as RowOf<Path>[]
      query = nextQuery(page.next_page_uri)
    }
  }
}

const pollMs = 500

function waitWith(http: Client<paths>): GatehouseClient['waitApplied'] {
  return async (change, { timeoutMs = 60_000, minNodes = 1, signal } = {}) => {
    const generation = typeof change === 'number' ? change : generationOf(change.headers)
    if (generation === undefined) return undefined
    for (const until = Date.now() + timeoutMs; ; await sleep(pollMs, signal)) {
      const { data } = await http.GET('/generations/{generation}', {
        params: { path: { generation: String(generation) } },
        ...(signal && { signal }),
      })
      const { live_nodes: live, applied_nodes: appliedNodes, behind } = data as Shapes['Generation']
      const applied = { generation, applied: appliedNodes, live, behind }
      if (live >= minNodes && appliedNodes >= live) return applied
      if (Date.now() + pollMs > until) throw new NotAppliedError(applied)
    }
  }
}
