// API calls with the settings of the provider block.
import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { appliedOf } from '../../clients/typescript/src/applied.ts'
import { nextQuery } from '../../clients/typescript/src/pages.ts'
import { appliedFault } from '../cli/applied.ts'
import { type Answer, type Call, type Connection, call, Refused } from '../cli/call.ts'
import { Failure } from '../cli/exits.ts'
import type { Action } from './catalog.ts'
import type { Json, State } from './values.ts'

const maxRows = 10_000
/** Rate limits usually count per minute, so this spans several windows. */
const patienceMs = 5 * 60 * 1000
/** Upper bound, even if a proxy asks for more. */
const maxPauseMs = 10_000
const isForLater = ['ERR_RATE_LIMITED', 'ERR_TOO_MANY_OPERATIONS']

export type Options = { readonly wait: boolean; readonly allowSelfLockout: boolean }
export type Response = { readonly body: Json; readonly warnings: readonly Failure[] }
export type Api = ReturnType<typeof apiOf>

/** `stopping` ends waiting for a rate limit, but never a request, whose outcome would be unknown. */
export function apiOf(connection: Connection, options: Options, stopping: AbortSignal) {
  async function patientCall(request: Call): Promise<Answer> {
    const deadline = Date.now() + patienceMs
    for (;;) {
      try {
        return await call(connection, request)
      } catch (error) {
        const isWorthWaiting = error instanceof Refused && isForLater.includes(error.code) && Date.now() < deadline
        if (!isWorthWaiting || stopping.aborted) throw error
        // Jitter: requests that retry together would reach the limit again.
        const pauseMs = Math.min(error.retryAfterMs ?? 0, maxPauseMs) + Math.random() * 1_000
        await setTimeout(pauseMs, undefined, { signal: stopping }).catch(() => {})
      }
    }
  }

  const optionsFor = ({ method, parameters }: Action) => ({
    ...(method !== 'GET' && options.wait && parameters.has('wait') && { wait: 'applied' }),
    ...(options.allowSelfLockout && parameters.has('allow_self_lockout') && { allow_self_lockout: true }),
  })

  async function send(action: Action, key: State, { body, query }: { body?: Json; query?: Json } = {}) {
    const path = action.path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(key[name])))
    const answer = await patientCall({
      method: action.method,
      path,
      query: { ...optionsFor(action), ...query },
      accept: 'application/json',
      headers: action.parameters.has('Idempotency-Key') ? { 'idempotency-key': randomUUID() } : {},
      ...(body && { body: JSON.stringify(body) }),
    })
    return { body: jsonOf(answer), warnings: notAppliedYet(answer) } satisfies Response
  }

  /** Reads all pages, up to a limit, because some lists are endless. */
  async function list(action: Action, key: State, listField: string, filters: Json): Promise<Json> {
    const rows: unknown[] = []
    let query: Json = { ...filters, ...(action.parameters.has('limit') && { limit: 100 }) }
    for (;;) {
      const { body } = await send(action, key, { query })
      rows.push(...((body[listField] ?? []) as unknown[]))
      const next = nextQuery(body.next_page_uri as string | null)
      if (!next) return { ...body, [listField]: rows }
      if (rows.length >= maxRows)
        throw new Failure('refused', `The list has more than ${maxRows} entries.`, ['Use its arguments to read fewer.'])
      query = next
    }
  }

  return { send, list }
}

function jsonOf({ text }: Answer): Json {
  let body: unknown
  try {
    body = text ? JSON.parse(text) : {}
  } catch (cause) {
    throw new Failure('unreachable', `The service answered with something that is not valid JSON: ${cause}.`)
  }
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as Json
  throw new Failure('unreachable', 'The service answered with JSON that is not an object.')
}

/** A warning, because Terraform would replace the resource after an error at creation. */
function notAppliedYet({ headers }: Answer): Failure[] {
  const applied = headers.has('service-applied') ? appliedOf(headers) : undefined
  return applied ? [appliedFault(applied, 1) ?? []].flat() : []
}
