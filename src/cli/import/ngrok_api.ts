import { setTimeout } from 'node:timers/promises'
import { exitOf, Failure } from '../exits.ts'
import { startProgress } from '../output/progress.ts'
import { log } from '../output/terminal.ts'
import type { Json } from '../state/kinds.ts'

/** The vendor's API and its key. The key is sent nowhere else and never printed. */
export type Source = { readonly url: string; readonly token: string }

const limits = { attempts: 6, pauseMs: 60_000, requestMs: 60_000, answerBytes: 16 * 2 ** 20, pages: 1_000 }

/** The vendor's lists by path, with the field that contains the rows. */
export const listFields = {
  '/ip_policies': 'ip_policies',
  '/ip_policy_rules': 'ip_policy_rules',
  '/ip_restrictions': 'ip_restrictions',
  '/backends/static': 'backends',
  '/backends/http_response': 'backends',
  '/backends/weighted': 'backends',
  '/backends/failover': 'backends',
  '/backends/tunnel_group': 'backends',
  '/reserved_domains': 'reserved_domains',
  '/edges/tcp': 'tcp_edges',
  '/edges/https': 'https_edges',
  '/edges/tls': 'tls_edges',
  '/endpoints': 'endpoints',
  '/reserved_addrs': 'reserved_addrs',
  '/tls_certificates': 'tls_certificates',
  '/certificate_authorities': 'certificate_authorities',
  '/api_keys': 'keys',
  '/bot_users': 'bot_users',
  '/event_subscriptions': 'event_subscriptions',
} as const
export type ListPath = keyof typeof listFields
export const listPaths = Object.keys(listFields) as ListPath[]

/** The rows of each list, oldest first. Undefined if the vendor's API no longer has the list. */
export type Lists = Readonly<Record<ListPath, readonly Json[] | undefined>>

export async function readLists(source: Source): Promise<Lists> {
  const progress = startProgress('read')
  const lists: Partial<Record<ListPath, readonly Json[] | undefined>> = {}
  try {
    // Sequential: the vendor limits an account's requests.
    for (const path of listPaths) lists[path] = await readList(source, path, () => progress.step(path))
  } finally {
    progress.end()
  }
  return lists as Lists
}

async function readList(source: Source, path: ListPath, step: () => void): Promise<Json[] | undefined> {
  const rows: Json[] = []
  let query = new URLSearchParams({ limit: '100' })
  for (let page = 0; page < limits.pages; page++) {
    const answer = await get(source, `${path}?${query}`)
    if (answer === undefined) return undefined
    const found = answer[listFields[path]]
    if (!Array.isArray(found) || found.some((row) => !isObject(row) || typeof row.id !== 'string'))
      throw unexpected(source, path)
    rows.push(...(found as Json[]))
    step()
    const next = answer.next_page_uri
    if (next === null || next === undefined || next === '') return rows.reverse()
    const parsed = typeof next === 'string' ? URL.parse(next, source.url) : null
    if (!parsed) throw unexpected(source, path)
    // Uses only its query: wherever the link points, the key is only for the configured address.
    query = parsed.searchParams
  }
  throw new Failure('refused', `${source.url}${path} has more than ${limits.pages} pages; nothing was written`)
}

const isObject = (value: unknown): value is Json => value !== null && typeof value === 'object' && !Array.isArray(value)

const unexpected = ({ url }: Source, path: string): Failure =>
  new Failure('refused', `${url}${path.split('?')[0]} did not answer with a list in the vendor's documented form`, [
    'Check --api-url. Nothing was written.',
  ])

type Answer = { readonly status: number; readonly text: string; readonly retryAfter: string | null }

/** The parsed response, or undefined if the API does not have this path. Retries transient errors. */
async function get(source: Source, path: string): Promise<Json | undefined> {
  for (let attempt = 1; ; attempt++) {
    const answer = await request(source, path)
    if ('status' in answer && answer.status === 200) return parse(source, path, answer.text)
    if ('status' in answer && (answer.status === 404 || answer.status === 410)) return undefined
    const passes = !('status' in answer) || answer.status === 429 || answer.status >= 500
    if (!passes || attempt === limits.attempts)
      throw 'status' in answer ? failureOf(source, path, answer) : unreachable(source, answer.cause)
    const asked = 'status' in answer ? secondsOf(answer.retryAfter) * 1_000 : 0
    const waitMs = Math.min(limits.pauseMs, Math.max(asked, 250 * 2 ** attempt))
    const why = 'status' in answer ? `answered ${answer.status}` : 'did not answer'
    log(`${source.url} ${why}; trying again in ${Math.ceil(waitMs / 1_000)} s`)
    await setTimeout(waitMs)
  }
}

async function request({ url, token }: Source, path: string): Promise<Answer | { readonly cause: Error }> {
  try {
    const response = await fetch(url + path, {
      headers: { authorization: `Bearer ${token}`, 'ngrok-version': '2', accept: 'application/json' },
      redirect: 'manual',
      signal: AbortSignal.timeout(limits.requestMs),
    })
    return {
      status: response.status,
      text: await boundedText(response),
      retryAfter: response.headers.get('retry-after'),
    }
  } catch (cause) {
    if (cause instanceof Failure) throw cause
    return { cause: cause as Error }
  }
}

async function boundedText({ body }: Response): Promise<string> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of body ?? []) {
    bytes += part.length
    if (bytes > limits.answerBytes)
      throw new Failure('refused', `an answer has more than ${limits.answerBytes} bytes; nothing was written`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

/** The header has seconds or a date. */
function secondsOf(retryAfter: string | null): number {
  if (!retryAfter) return 0
  const seconds = /^\d+$/.test(retryAfter) ? Number(retryAfter) : (Date.parse(retryAfter) - Date.now()) / 1_000
  return Number.isFinite(seconds) ? Math.max(0, seconds) : 0
}

function parse(source: Source, path: string, text: string): Json {
  try {
    const value: unknown = JSON.parse(text)
    if (isObject(value)) return value
  } catch {
    // The same as a value of another type.
  }
  throw unexpected(source, path)
}

function failureOf({ url, token }: Source, path: string, { status, text }: Answer): Failure {
  let message: unknown
  try {
    message = (JSON.parse(text) as { msg?: unknown } | null)?.msg
  } catch {
    // The HTML page of a proxy is of no use here.
  }
  // A message may echo what was sent.
  const said = typeof message === 'string' ? `: ${message.replaceAll(token, '…').slice(0, 300)}` : ''
  const hints =
    status === 401 || status === 403
      ? ['The token must be that of an API key of the vendor, not the authtoken of an agent.']
      : []
  return new Failure(exitOf(status), `${url}${path.split('?')[0]} answered ${status}${said}`, [
    ...hints,
    'Nothing was written.',
  ])
}

function unreachable({ url }: Source, cause: Error): Failure {
  const inner = cause.cause instanceof Error ? cause.cause.message : cause.message
  return new Failure('unreachable', `${url} did not answer: ${inner}`, ['Nothing was written.'], { cause })
}
