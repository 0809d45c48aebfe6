import { generateSync } from 'json-schema-faker'
import { seededRandom } from '../deciders/cases.ts'
import type { Answer, Client } from '../harness/client.ts'
import { type Operation, operations, type Schema, type Verdict, verdictOf } from './document.ts'

type Sent = { operation: Operation; path: string; body: unknown; verdict: Verdict }
export type Outcome = { requests: number; statuses: Map<number, number>; faults: string[] }

/** A stream stays open. */
const leftOut = new Set(['requests.stream'])

/** Why a request is refused that the document calls valid: what it says in prose, because JSON Schema has no word for it. */
const saidInProse: readonly RegExp[] = [
  /must not contain the NUL character|must be well-formed Unicode|must have a value of printable ASCII/,
  /must equal the \w+ in the path/,
  /must be taken from next_page_uri/,
  /must be an? [\w ]+ of this account/,
  /matches no operation/,
  /can be used only with|cannot be used with/,
  /must be endpoints, or be omitted/,
  /is required with type|must be omitted with type|must be an IPv4 or IPv6 address/,
  /HTTP response backend/,
  /names the same header as|repeats an earlier entry|must not be listed twice/,
  /must not be empty unless deny has entries|must not be CONNECT or TRACE/,
  /must be a path such as|must be a host name or an IP address, with|must be set unless add_prefix or host is/,
  /must be an http or https URL|must be a URL that begins with https/,
  /must be one or more certificates in PEM form/,
  /must be a certificate in PEM form|Service-Reason must be 1 to 255 printable ASCII characters/,
  /must have two labels or more after|must have no other entry beside \*|must be false if a list has \*/,
  /must have at least one entry|must be without the default port|must take at most \d+ bytes in all|must not have a wildcard under/,
  /must be omitted unless the kind is|must be omitted with kind|must be the id of an? [\w ]+(?: or an? |\.)/,
  /must be before until|can be minute for the last 24 hours only|is too short: at most/,
]

type Random = (below: number) => number

/**
 * Calls every operation as one account: with what a generator that is not ours makes of openapi.json, and with something near
 * it. Those that make things come first, so that the others find some.
 */
export async function callEverything(call: Client, seed: number): Promise<Outcome> {
  const random = seededRandom(seed)
  const known = new Map<string, string[]>()
  const outcome: Outcome = { requests: 0, statuses: new Map(), faults: [] }
  for (const operation of inOrder(operations))
    for (const isNear of [false, true]) {
      const sent = requestOf(operation, known, random, isNear)
      if (!sent) continue
      const { faults, answer } = await send(call, sent)
      outcome.requests++
      outcome.statuses.set(answer?.status ?? 0, (outcome.statuses.get(answer?.status ?? 0) ?? 0) + 1)
      const shown = `seed ${seed}: ${operation.method} ${sent.path} ${JSON.stringify(sent.body)?.slice(0, 600)}`
      outcome.faults.push(...faults.map((fault) => `${shown}: ${fault}`))
      const id: unknown = answer?.status === 201 ? answer.body?.id : undefined
      if (typeof id === 'string') note(known, id)
    }
  return outcome
}

const prefixOf = (id: string): string => id.slice(0, id.indexOf('_') + 1)
function note(known: Map<string, string[]>, id: string): void {
  known.set(prefixOf(id), [...(known.get(prefixOf(id)) ?? []), id])
}

function inOrder(all: readonly Operation[]): Operation[] {
  const rank = ({ method }: Operation) => ['POST', 'PUT', 'PATCH', 'GET', 'DELETE'].indexOf(method)
  return all.filter(({ id }) => !leftOut.has(id)).sort((a, b) => rank(a) - rank(b))
}

function requestOf(
  operation: Operation,
  known: Map<string, string[]>,
  random: Random,
  isNear: boolean,
): Sent | undefined {
  const made = (schema: Schema): unknown =>
    withKnownIds(
      generateSync(schema, { seed: random(1e9), optionalsProbability: random(10) / 10, maxDefaultItems: 3 }),
      known,
      random,
    )
  let path = operation.path
  for (const prefix of operation.ids) {
    const some = known.get(prefix) ?? []
    path = path.replace(
      /\{\w+\}/,
      some[random(some.length)] ?? (prefix === '' ? '1' : `${prefix}01jz3v8q4se5x9y2m7n6k0abcd`),
    )
  }
  const query = new URLSearchParams()
  let verdict: Verdict = 'valid'
  for (const { name, schema, required } of operation.query) {
    // Otherwise a restriction may shut out the caller.
    if (name === 'allow_self_lockout' || (!required && random(4) > 0)) continue
    const value = made(schema)
    const said = verdictOf(schema, value)
    if (said !== 'valid') verdict = said
    query.set(name, String(value))
  }
  if (query.size > 0) path += `?${query}`
  if (!operation.body) return isNear ? undefined : { operation, path, body: undefined, verdict }
  const whole = made(operation.body)
  const body = isNear ? changed(whole, random) : whole
  const said = verdictOf(operation.body, body)
  return { operation, path, body, verdict: said === 'valid' ? verdict : said }
}

const anyId = /^[a-z]+_[0-7][0-9a-z]{25}$/
function withKnownIds(value: unknown, known: Map<string, string[]>, random: Random): unknown {
  if (typeof value === 'string' && anyId.test(value)) {
    const some = known.get(prefixOf(value)) ?? []
    return (random(5) > 0 && some[random(some.length)]) || value
  }
  if (Array.isArray(value)) return value.map((each) => withKnownIds(each, known, random))
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withKnownIds(each, known, random)]))
}

const others = [
  null,
  true,
  0,
  -1,
  1.5,
  1e308,
  '',
  ' ',
  'x'.repeat(5_000),
  '\0',
  '\ud800',
  [],
  {},
  [[]],
  { a: { b: {} } },
]
/** With something else in one place: missing, too much, or of another type. */
function changed(value: unknown, random: Random): unknown {
  if (value === null || typeof value !== 'object' || random(6) === 0) return others[random(others.length)]
  if (Array.isArray(value)) {
    const at = random(value.length + 1)
    return value.toSpliced(at, 1, changed(value[at], random))
  }
  const entries = Object.entries(value)
  const at = random(entries.length + 1)
  const [name, inner] = entries[at] ?? ['added', 1]
  if (random(3) === 0) return Object.fromEntries(entries.toSpliced(at, 1))
  return { ...value, [name]: changed(inner, random) }
}

async function send(
  call: Client,
  { operation, path, body, verdict }: Sent,
): Promise<{ faults: string[]; answer?: Answer }> {
  try {
    const answer = await call(operation.method, path, body)
    const { status, text } = answer
    if (status >= 500) return { answer, faults: [`${status} ${text}`] }
    if (verdict === 'invalid' && status < 400) return { answer, faults: [`is invalid and gets ${status}`] }
    const isRefused = status === 400 && verdict === 'valid' && !saidInProse.some((prose) => prose.test(text))
    return { answer, faults: isRefused ? [`is valid and gets ${text}`] : [] }
  } catch (error) {
    // The client compares each answer with the document.
    return { faults: [(error as Error).message] }
  }
}
