import { setTimeout } from 'node:timers/promises'
import { type ErrorBody as DocumentedError, readError } from '../../clients/typescript/src/errors.ts'
import { type Failed, mayRetry, pauseMs, retryAfterMs, wasNothingDone } from '../../clients/typescript/src/retries.ts'
import { exitOf, Failure } from './exits.ts'
import { log } from './output/terminal.ts'
import { headersOf, send, textOf } from './transport.ts'

export type Connection = {
  readonly url: string
  readonly token: string
  /** Where the token is configured, for the error about a rejected token. */
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
/** Keyed by lower-case name. */
type Headers = ReadonlyMap<string, string>
export type Answer = { readonly status: number; readonly headers: Headers; readonly text: string }

/** A refusal by the service. The hint comes from the catalog. */
export class Refused extends Failure {
  readonly status: number
  readonly code: string
  /** As the service sent it. */
  readonly body: ErrorBody
  readonly retryAfterMs: number | undefined

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
    this.retryAfterMs = retryAfterMs(headers.get('retry-after'))
  }
}

async function refusedWith({ url, tokenSource }: Connection, { status, text, headers }: Answer): Promise<Refused> {
  const error: ErrorBody = readError(text) ?? {}
  // Loaded on demand, because most calls succeed.
  const hint = (await import('./hints.ts')).hintOf(error.error_code ?? '', url)
  const isTokenWrong = error.error_code === 'ERR_UNAUTHENTICATED' && tokenSource !== undefined
  const shown = isTokenWrong ? { ...error, msg: `The service does not accept the token of ${tokenSource}.` } : error
  return new Refused(status, shown, headers, hint ? [`hint: ${hint}`] : [])
}

/** The change became a change set that waits for approval. Nothing has changed, so dependent steps cannot follow. */
export class SentForApproval extends Failure {
  /** As the service sent it. */
  readonly text: string

  constructor(text: string) {
    const { id, content_sha256, state } = JSON.parse(text) as { id: string; content_sha256: string; state: string }
    const isApproved = state === 'approved'
    super(
      'waiting',
      isApproved
        ? `This change needs approval, and has it already as the change set ${id}. Nothing was changed yet.`
        : `This change needs the approval of another admin, and waits for it as the change set ${id}. Nothing was changed.`,
      [
        `Look at it:    gatehouse change-sets preview ${id}`,
        ...(isApproved
          ? []
          : [`Approve it:    gatehouse change-sets approve ${id} --content-sha256 ${content_sha256}`]),
        `Then apply it: gatehouse change-sets apply ${id}`,
        `Withdraw it:   gatehouse change-sets withdraw ${id}`,
      ],
    )
    this.text = text
  }
}

/** Empty if the response came from something between here and the service. */
export type ErrorBody = Partial<DocumentedError>

/** Users do not wait for minutes at a prompt: if the service asks for a longer delay, the error message says so. */
const pauses = { retries: 3, firstPauseMs: 200, maxWaitMs: 10_000 }

/** Retries if that is safe: creations carry an Idempotency-Key, and most other requests are idempotent. */
export async function call(connection: Connection, request: Call): Promise<Answer> {
  const isRepeatable = request.method !== 'POST' || request.headers?.['idempotency-key'] !== undefined
  let mayBeDone = false
  for (let attempt = 0; ; attempt++) {
    try {
      return await callOnce(connection, request, mayBeDone)
    } catch (error) {
      const failed = failedOf(error)
      const waitMs = failed && mayRetry(failed, isRepeatable) ? pauseMs(failed, attempt, pauses) : undefined
      if (failed === undefined || waitMs === undefined) throw error
      mayBeDone ||= !wasNothingDone(failed)
      if (connection.verbose) log(`${(error as Error).message} Retrying in ${Math.round(waitMs)} ms.`)
      await setTimeout(waitMs)
    }
  }
}

function failedOf(error: unknown): Failed | undefined {
  if (error instanceof Refused) return error
  const code = error instanceof Failure ? (error.cause as { code?: string } | undefined)?.code : undefined
  return code === undefined ? undefined : { broke: code }
}

/** A response that stays open. The timeout covers only its beginning. */
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
    // Loaded on demand: only streams need it.
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

/** `mayBeDone`: an earlier attempt may have succeeded, and its response was lost. */
async function callOnce(connection: Connection, request: Call, mayBeDone: boolean): Promise<Answer> {
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
  if (status === 202 && isOurs(answer)) throw new SentForApproval(answer.text)
  if (status >= 200 && status < 300 && isOurs(answer, request.accept)) return answer
  if (mayBeDone && method === 'DELETE' && status === 404) return { ...answer, status: 204, text: '' }
  throw await notAsExpected(connection, answer)
}

/** The dashboard and the documentation share the port, and respond to any path with an HTML page. */
function isOurs({ headers, text }: Answer, accepted = 'application/json'): boolean {
  const type = headers.get('content-type') ?? ''
  return (
    headers.has('operation-id') && (text === '' || type.startsWith('application/json') || type.startsWith(accepted))
  )
}

/** A refusal by the service, or the response of something else. */
async function notAsExpected(connection: Connection, answer: Answer): Promise<Failure> {
  const isRefusal = answer.status >= 400 && isOurs(answer, '')
  return isRefusal ? refusedWith(connection, answer) : (await loadUnreachable()).notGatehouse(connection, answer)
}

/** Loaded on demand, because most calls succeed. */
const loadUnreachable = () => import('./unreachable.ts')
const noAnswer = async (...asked: [Connection, AbortSignal, unknown]): Promise<Failure> =>
  (await loadUnreachable()).unreachable(...asked)

export function queryOf(query: Call['query'] = {}): string {
  const entries = Object.entries(query).map(([name, value]): [string, string] => [name, String(value)])
  return entries.length ? `?${new URLSearchParams(entries)}` : ''
}
