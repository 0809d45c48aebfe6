import { ConnectionError, GatehouseError, readError, SentForApprovalError } from './errors.ts'
import { type Failed, mayRetry, type Pauses, pauseMs, retryAfterMs, wasNothingDone } from './retries.ts'

export type SendOptions = {
  /** Where the API is. Nothing is ever sent elsewhere. */
  readonly url: string
  /** Its token. Without one, a browser sends the cookie of its dashboard session. */
  readonly apiKey?: string | undefined
  /** For each attempt, including the body of its response. */
  readonly timeoutMs?: number
  /** In place of the global one. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
} & Partial<Pauses>

export type Send = (request: Request, isRepeatable: boolean) => Promise<Response>

const isChange = (method: string): boolean => method !== 'GET' && method !== 'HEAD'

/** Sends requests, again where that is safe, and resolves to answers of the service that are not errors. */
export function createSend(options: SendOptions): Send {
  const {
    apiKey,
    timeoutMs = 60_000,
    retries = 3,
    firstPauseMs = 200,
    maxWaitMs = 30_000,
    fetch = (url, init) => globalThis.fetch(url, init),
  } = options
  const base = `${new URL(options.url).href.replace(/\/$/, '')}/`
  return async (request, isRepeatable) => {
    const { url, method, signal } = request
    if (!url.startsWith(base)) throw new TypeError(`The API key is for ${base}, and is not sent to ${url}.`)
    const headers = new Headers(request.headers)
    headers.set('Service-Version', '2')
    if (apiKey && !headers.has('Authorization')) headers.set('Authorization', `Bearer ${apiKey}`)
    if (!headers.has('Accept')) headers.set('Accept', 'application/json')
    const body = isChange(method) ? await request.arrayBuffer() : undefined
    const sent = { method, headers, ...(body?.byteLength && { body }) }
    let mayBeDone = false
    for (let attempt = 0; ; attempt++) {
      try {
        return await answerTo(url, sent, { fetch, timeoutMs, signal, mayBeDone })
      } catch (error) {
        const failed = error instanceof Attempt ? error.failed : undefined
        const pause =
          failed && mayRetry(failed, isRepeatable)
            ? pauseMs(failed, attempt, { retries, firstPauseMs, maxWaitMs })
            : undefined
        if (pause === undefined) throw error instanceof Attempt ? error.cause : error
        mayBeDone ||= failed !== undefined && !wasNothingDone(failed)
        await sleep(pause, signal)
      }
    }
  }
}

/** A failed attempt: what the caller gets if it was the last, and what decides whether it was. */
class Attempt extends Error {
  readonly failed: Failed

  constructor(cause: Error, failed: Failed) {
    super(cause.message, { cause })
    this.failed = failed
  }
}

type Sent = { method: string; headers: Headers; body?: ArrayBuffer }
/** `mayBeDone`: by an earlier attempt, whose response was lost. */
type Limits = { fetch: NonNullable<SendOptions['fetch']>; timeoutMs: number; signal: AbortSignal; mayBeDone: boolean }

async function answerTo(url: string, sent: Sent, limits: Limits): Promise<Response> {
  const { mayBeDone } = limits
  const response = await received(url, sent, limits)
  const { status, headers } = response
  if (!headers.has('Operation-Id'))
    throw new Attempt(
      new ConnectionError(`What answers at ${new URL(url).origin} is not Gatehouse: ${status}.`, {
        mayBeDone: isChange(sent.method),
        status,
      }),
      { status, retryAfterMs: retryAfterMs(headers.get('Retry-After')) },
    )
  if (status === 202) throw new SentForApprovalError((await response.json()) as SentForApprovalError['changeSet'])
  if (response.ok || status === 304) return response
  if (mayBeDone && sent.method === 'DELETE' && status === 404) return new Response(null, { status: 204, headers })
  if (mayBeDone && status === 412)
    throw new ConnectionError('The response to an earlier attempt was lost, and If-Match no longer holds.', {
      mayBeDone,
    })
  const body = readError(await response.text())
  if (!body)
    throw new ConnectionError(`The service answered ${status} without an explanation.`, {
      mayBeDone: isChange(sent.method),
      status,
    })
  const error = new GatehouseError(body, retryAfterMs(headers.get('Retry-After')))
  throw new Attempt(error, error)
}

/** A whole response; of a stream its beginning. It follows no redirect: the API key is for one host only. */
async function received(url: string, sent: Sent, { fetch, timeoutMs, signal }: Limits): Promise<Response> {
  const limit = new AbortController()
  const timer = setTimeout(() => limit.abort(), timeoutMs)
  try {
    const response = await fetch(url, { ...sent, redirect: 'manual', signal: AbortSignal.any([signal, limit.signal]) })
    if (response.headers.get('Content-Type')?.startsWith('text/event-stream')) return response
    const body = await response.arrayBuffer()
    // Browsers hide a redirect behind the status 0, which no Response can be made with.
    return response.status === 0 ? response : new Response(body.byteLength ? body : null, response)
  } catch (cause) {
    if (signal.aborted) throw cause
    const mayBeDone = isChange(sent.method)
    if (limit.signal.aborted)
      throw new ConnectionError(`No response within ${timeoutMs / 1_000} s.`, { mayBeDone, cause })
    throw new Attempt(
      new ConnectionError(`${new URL(url).origin} cannot be reached, or the connection broke.`, { mayBeDone, cause }),
      { broke: (cause as { cause?: { code?: string } }).cause?.code ?? '' },
    )
  } finally {
    clearTimeout(timer)
  }
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    if (signal?.aborted) stop()
    else signal?.addEventListener('abort', stop, { once: true })
  })
}
