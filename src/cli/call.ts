import { setTimeout } from 'node:timers/promises'
import { errorCatalogue } from '../kernel/errors.ts'
import { exitOf, Failure } from './exits.ts'
import { log } from './terminal.ts'

export type Connection = {
  readonly url: string
  readonly token: string
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
export type Answer = { readonly status: number; readonly headers: Headers; readonly text: string }

/** A refusal by the service, printed with the hint from the catalog. */
export class Refused extends Failure {
  readonly status: number
  readonly code: string
  readonly retryAfterMs: number

  constructor(status: number, text: string, headers: Headers) {
    const { error_code = '', msg, details } = asError(text)
    const known = errorCatalogue[error_code as keyof typeof errorCatalogue]
    const operationId = details?.operation_id ?? headers.get('operation-id')
    const others = Object.entries(details ?? {}).filter(([name]) => name !== 'operation_id' && name !== 'field')
    super(
      exitOf(status),
      `${msg ?? `The service answered ${status} without an explanation.`} (${error_code || status})`,
      [
        ...others.map(([name, value]) => `${name.replaceAll('_', ' ')}: ${value}`),
        ...(known ? [`hint: ${known.hint}`] : []),
        ...(status >= 300 && status < 400
          ? [
              `It redirects to ${headers.get('location')}, and the token is not sent there. If that URL is right, configure it instead.`,
            ]
          : []),
        ...(operationId ? [`operation: ${operationId}`] : []),
      ],
    )
    this.status = status
    this.code = error_code
    // Capped: nobody waits for minutes at a prompt, whatever a proxy says.
    this.retryAfterMs = Math.min(10, Number(headers.get('retry-after')) || 0) * 1_000
  }
}

type ErrorBody = { error_code?: string; msg?: string; details?: Record<string, string> }
function asError(text: string): ErrorBody {
  try {
    return (JSON.parse(text) as ErrorBody | null) ?? {}
  } catch {
    return {}
  }
}

/** Transient: nothing is listening right now, or the connection broke. */
const passing = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET', 'EAI_AGAIN', 'ETIMEDOUT'])
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
    const response = await fetch(connection.url + request.path + queryOf(request.query), {
      headers: {
        authorization: `Bearer ${connection.token}`,
        'service-version': '2',
        accept: 'text/event-stream, application/json',
      },
      redirect: 'manual',
      signal: began.signal,
    }).catch((cause) => {
      throw unreachable(connection, cause)
    })
    if (response.status !== 200) throw new Refused(response.status, await response.text(), response.headers)
    if (!response.body || !response.headers.get('content-type')?.startsWith('text/event-stream'))
      throw new Failure('unreachable', `The server at ${connection.url} is not Gatehouse.`, ['Check the URL.'])
    return response.body
  } finally {
    clearTimeout(limit)
  }
}

async function callOnce(connection: Connection, request: Call, isRepeated: boolean): Promise<Answer> {
  const { method, path, body } = request
  const url = connection.url + path + queryOf(request.query)
  let answer: Answer
  try {
    const response = await fetch(url, {
      method,
      headers: {
        authorization: `Bearer ${connection.token}`,
        'service-version': '2',
        ...(request.accept && { accept: request.accept }),
        ...(body !== undefined && { 'content-type': request.contentType ?? 'application/json' }),
        ...request.headers,
      },
      ...(body !== undefined && { body }),
      // The token is only for the configured URL.
      redirect: 'manual',
      signal: AbortSignal.timeout(connection.timeoutMs),
    })
    answer = { status: response.status, headers: response.headers, text: await response.text() }
  } catch (cause) {
    throw unreachable(connection, cause)
  }
  if (connection.verbose) log(`${method} ${path}: ${answer.status}, operation ${answer.headers.get('operation-id')}`)
  if (answer.status >= 200 && answer.status < 300 && answer.headers.has('operation-id')) return answer
  // Another program on that port, or a proxy's login page.
  if (!answer.headers.has('operation-id') && answer.status < 300)
    throw new Failure('unreachable', `The server at ${connection.url} is not Gatehouse.`, ['Check the URL.'])
  // The first attempt succeeded, but its response was lost.
  if (isRepeated && method === 'DELETE' && answer.status === 404) return { ...answer, status: 204, text: '' }
  throw new Refused(answer.status, answer.text, answer.headers)
}

export function queryOf(query: Call['query'] = {}): string {
  const entries = Object.entries(query).map(([name, value]): [string, string] => [name, String(value)])
  return entries.length ? `?${new URLSearchParams(entries)}` : ''
}

function unreachable({ url, timeoutMs }: Connection, cause: unknown): Failure {
  const { name } = cause as Error
  if (name === 'TimeoutError')
    return new Failure('unreachable', `${url} did not respond within ${timeoutMs / 1000} s.`, [
      'A change may or may not have been made. Check before you repeat it.',
      'Use --timeout SECONDS to wait longer.',
    ])
  const inner = (cause as Error).cause as { code?: string; message?: string } | undefined
  const hint = /CERT|SIGNATURE|ISSUER|SELF_SIGNED/.test(inner?.code ?? '')
    ? 'If your own CA signed its certificate, set NODE_EXTRA_CA_CERTS=/path/to/ca.pem.'
    : 'Check that it is running and that the URL is right. `gatehouse profiles list` shows saved URLs.'
  const what = inner?.message || inner?.code || (cause as Error).message
  return new Failure('unreachable', `${url} cannot be reached: ${what}.`, [hint], { cause })
}

const codeOf = (error: Failure): string =>
  ((error.cause as Error | undefined)?.cause as { code?: string } | undefined)?.code ?? ''
