import { setTimeout } from 'node:timers/promises'
import { exitOf, Failure } from './exits.ts'
import { log } from './output/terminal.ts'
import { headersOf, send, textOf } from './transport.ts'

export type Connection = {
  readonly url: string
  readonly token: string
  /** Where the token is set, for the message about one that is not accepted. */
  readonly tokenSource?: string
  readonly timeoutMs: number
  readonly verbose: boolean
}
export type Call = {
  readonly method: string
  /** With its parameters filled in. */
  readonly path: string
  readonly query?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly contentType?: string
  readonly accept?: string
}
/** By their names in lower case. */
type Headers = ReadonlyMap<string, string>
export type Answer = { readonly status: number; readonly headers: Headers; readonly text: string }

/** A refusal by the service, printed with the hint from the catalog. */
export class Refused extends Failure {
  readonly status: number
  readonly code: string
  /** As the service sent it. */
  readonly body: ErrorBody
  readonly retryAfterMs: number

  constructor(status: number, body: ErrorBody, headers: Headers, hints: readonly string[] = []) {
    const { error_code = '', msg, details, errors = [] } = body
    const operationId = details?.operation_id ?? headers.get('operation-id')
    const others = Object.entries(details ?? {}).filter(([name]) => !['operation_id', 'field', 'errors'].includes(name))
    super(
      exitOf(status),
      `${msg ?? `The service answered ${status} without an explanation.`} (${error_code || status})`,
      [
        ...errors.slice(1).map((error) => String(error?.msg)),
        ...others.map(([name, value]) => `${name.replaceAll('_', ' ')}: ${value}`),
        ...hints,
        ...(operationId ? [`operation: ${operationId}`] : []),
      ],
    )
    this.status = status
    this.code = error_code
    this.body = body
    // Capped: no one waits for minutes at a prompt, even if a proxy asks for it.
    this.retryAfterMs = Math.min(10, Number(headers.get('retry-after')) || 0) * 1_000
  }
}

async function refusedWith({ url, tokenSource }: Connection, { status, text, headers }: Answer): Promise<Refused> {
  const error = asError(text)
  // Loaded on demand, because most calls succeed.
  const hint = (await import('./hints.ts')).hintOf(error.error_code ?? '', url)
  const isTokenWrong = error.error_code === 'ERR_UNAUTHENTICATED' && tokenSource !== undefined
  const shown = isTokenWrong ? { ...error, msg: `The service does not accept the token of ${tokenSource}.` } : error
  return new Refused(status, shown, headers, hint ? [`hint: ${hint}`] : [])
}

export type ErrorBody = {
  error_code?: string
  msg?: string
  details?: Record<string, string>
  errors?: { field?: string; msg?: string }[]
}
function asError(text: string): ErrorBody {
  try {
    return (JSON.parse(text) as ErrorBody | null) ?? {}
  } catch {
    return {}
  }
}

/** Transient: nothing is listening right now, or the connection broke. */
const passing = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'EAI_AGAIN', 'ETIMEDOUT'])
/** Transient too, and said by the service. */
const nothingWasDone = new Set(['ERR_UNAVAILABLE', 'ERR_TOO_MANY_OPERATIONS', 'ERR_RATE_LIMITED'])
const pausesMs = [200, 500, 1_000]

/**
 * Sends the request, and retries when the connection failed or the service said that nothing was changed. That is safe:
 * creations carry an Idempotency-Key, and everything else is idempotent.
 */
export async function call(connection: Connection, request: Call): Promise<Answer> {
  for (let attempt = 0; ; attempt++) {
    const pause = pausesMs[attempt]
    try {
      return await callOnce(connection, request, attempt > 0)
    } catch (error) {
      const again =
        error instanceof Refused
          ? nothingWasDone.has(error.code)
          : error instanceof Failure && passing.has(codeOf(error))
      if (!again || pause === undefined) throw error
      const waitMs = Math.max(pause, error instanceof Refused ? error.retryAfterMs : 0)
      if (connection.verbose) log(`${(error as Error).message} Retrying in ${waitMs} ms.`)
      await setTimeout(waitMs)
    }
  }
}

/** A response that stays open. Only its beginning has to come within the time. */
export async function openStream(connection: Connection, request: Call): Promise<ReadableStream<Uint8Array>> {
  const began = new AbortController()
  const limit = globalThis.setTimeout(
    () => began.abort(new DOMException('timeout', 'TimeoutError')),
    connection.timeoutMs,
  )
  try {
    const accept = 'text/event-stream, application/json'
    const response = await sendCall(connection, { ...request, accept }, began.signal)
    const [status, headers] = [response.statusCode ?? 0, headersOf(response)]
    if (status !== 200 || !headers.get('content-type')?.startsWith('text/event-stream'))
      throw await notAsExpected(connection, { status, headers, text: await textOf(response) })
    // Loaded here only: other commands have no use for it.
    return (await import('node:stream')).Readable.toWeb(response) as ReadableStream<Uint8Array>
  } catch (cause) {
    throw cause instanceof Failure ? cause : await noAnswer(connection, began.signal, cause)
  } finally {
    clearTimeout(limit)
  }
}

const sendCall = ({ url, token }: Connection, request: Call, signal: AbortSignal) =>
  send(url + request.path + queryOf(request.query), {
    method: request.method,
    headers: {
      authorization: `Bearer ${token}`,
      'service-version': '2',
      ...(request.accept && { accept: request.accept }),
      ...(request.body !== undefined && { 'content-type': request.contentType ?? 'application/json' }),
      ...request.headers,
    },
    ...(request.body !== undefined && { body: request.body }),
    signal,
  })

async function callOnce(connection: Connection, request: Call, isRepeated: boolean): Promise<Answer> {
  const { method, path } = request
  const limit = AbortSignal.timeout(connection.timeoutMs)
  let answer: Answer
  try {
    const response = await sendCall(connection, request, limit)
    answer = { status: response.statusCode ?? 0, headers: headersOf(response), text: await textOf(response) }
  } catch (cause) {
    throw await noAnswer(connection, limit, cause)
  }
  const { status, headers } = answer
  if (connection.verbose) {
    const etag = headers.get('etag')
    log(`${method} ${path}: ${status}, operation ${headers.get('operation-id')}${etag ? `, ETag ${etag}` : ''}`)
  }
  if (status >= 200 && status < 300 && isOurs(answer, request.accept)) return answer
  // The first attempt succeeded, but its response was lost.
  if (isRepeated && method === 'DELETE' && status === 404) return { ...answer, status: 204, text: '' }
  throw await notAsExpected(connection, answer)
}

/** The dashboard and the documentation are on the same port, and answer under every path with a page of theirs. */
function isOurs({ headers, text }: Answer, accepted = 'application/json'): boolean {
  const type = headers.get('content-type') ?? ''
  return (
    headers.has('operation-id') && (text === '' || type.startsWith('application/json') || type.startsWith(accepted))
  )
}

/** A refusal of the service, or the answer of something else. */
async function notAsExpected(connection: Connection, answer: Answer): Promise<Failure> {
  const isRefusal = answer.status >= 400 && isOurs(answer, '')
  return isRefusal ? refusedWith(connection, answer) : (await loadUnreachable()).notGatehouse(connection, answer)
}

/** Loaded on demand, because most calls are answered. */
const loadUnreachable = () => import('./unreachable.ts')
const noAnswer = async (...asked: [Connection, AbortSignal, unknown]): Promise<Failure> =>
  (await loadUnreachable()).unreachable(...asked)

export function queryOf(query: Call['query'] = {}): string {
  const entries = Object.entries(query).map(([name, value]): [string, string] => [name, String(value)])
  return entries.length ? `?${new URLSearchParams(entries)}` : ''
}

const codeOf = ({ cause }: Failure): string => (cause as { code?: string } | undefined)?.code ?? ''
