import { readFileSync } from 'node:fs'
import type { Call } from './call.ts'
import { Failure, usageFailure } from './exits.ts'
import { type Flag, secretFields, type Typed } from './flags.ts'
import type { Operation } from './operation.ts'
import { readStandardInput } from './output/terminal.ts'

type Json = Record<string, unknown>

/** Ids, generation numbers, and `-` for ids on standard input. Anything else may be a name. */
export const looksLikeId = (text: string): boolean => /^([a-z]+_\w*|\d+|[0-9a-f]{8}-[0-9a-f-]{27}|-|)$/.test(text)

/** Converts the arguments to requests: a single one, or with `-` as the last id one for each id on standard input. */
export async function requestsOf(operation: Operation, typed: Typed): Promise<Call[]> {
  const { positionals } = operation
  const wanted = positionals.map(({ name }) => `<${name}>`).join(' ')
  if (typed.positionals.length !== positionals.length)
    throw usageFailure(
      positionals.length
        ? `${operation.words.join(' ')} needs ${wanted}, but got ${typed.positionals.join(' ') || 'nothing'}`
        : `unexpected argument: ${typed.positionals.join(' ')}`,
      `See 'gatehouse ${operation.words.join(' ')} --help'.`,
    )
  const fromInput = typed.positionals.at(-1) === '-' && positionals.at(-1)?.place === 'path'
  const lastOnes = fromInput
    ? (await readStandardInput()).split(/\s+/).filter(Boolean)
    : [typed.positionals.at(-1) ?? '']
  const whole = await wholeBody(operation, typed, fromInput)
  // Loaded on demand, because most commands create nothing.
  const idempotencyKey = operation.creates ? (await import('node:crypto')).randomUUID : undefined
  return lastOnes.map((last) => {
    const values = [...typed.positionals.slice(0, -1), last].slice(0, positionals.length)
    const named = Object.fromEntries(positionals.map(({ name }, index) => [name, values[index] ?? '']))
    const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(named[name] ?? ''))
    const inBody = positionals.filter(({ place }) => place === 'body').map(({ name }) => [name, named[name]])
    return {
      method: operation.method,
      path,
      query: valuesAt(typed, 'query'),
      headers: {
        ...(idempotencyKey && { 'idempotency-key': idempotencyKey() }),
        ...(valuesAt(typed, 'header') as Record<string, string>),
      },
      ...bodyOf(operation, typed, whole, Object.fromEntries(inBody)),
    }
  })
}

const givenAt = ({ given }: Typed, place: Flag['place']) => given.filter(({ flag }) => flag.place === place)
const valuesAt = (typed: Typed, place: Flag['place']): Json =>
  Object.fromEntries(givenAt(typed, place).map(({ flag, value }) => [flag.path[0], value]))

/** The content of --data or --file, as text. */
async function wholeBody({ body }: Operation, { command }: Typed, inputIsTaken: boolean): Promise<string | undefined> {
  if (!body) return undefined
  const { data, file } = command
  if (data !== undefined && file !== undefined) throw usageFailure('use --data or --file, not both')
  const source = file === undefined ? data : `@${file}`
  if (source === undefined) return undefined
  if (source === '-' || source === '@-') {
    if (inputIsTaken) throw usageFailure('standard input cannot provide both the ids and the body')
    return readStandardInput()
  }
  if (!source.startsWith('@')) return source
  try {
    return readFileSync(source.slice(1), 'utf8')
  } catch (cause) {
    throw new Failure('usage', `${source.slice(1)} cannot be read: ${(cause as Error).message}`, [], { cause })
  }
}

function bodyOf(
  operation: Operation,
  typed: Typed,
  whole: string | undefined,
  fields: Json,
): Pick<Call, 'body' | 'contentType'> {
  if (!operation.body) return {}
  const fromFlags = givenAt(typed, 'body')
  const [textType] = operation.otherBodies
  // Only JSON begins with a brace here; the operation's other bodies are lines of text.
  if (whole !== undefined && textType && !whole.trimStart().startsWith('{')) {
    if (fromFlags.length) throw usageFailure('flags that set fields need a JSON body')
    return { body: whole, contentType: textType }
  }
  const body: Json = { ...(whole === undefined ? {} : parseObject(whole)), ...fields }
  for (const { flag, value } of fromFlags) set(body, flag.path, value)
  const missing = operation.body.required.filter((name) => !(name in body))
  const secret = missing.find((name) => secretFields.includes(name))
  if (secret)
    throw usageFailure(
      `${secret} is required. Give it in --data, because every user of the machine can see process arguments`,
    )
  if (missing.length)
    throw usageFailure(
      `${missing.map((name) => flagFor(operation, name)).join(' and ')} ${missing.length > 1 ? 'are' : 'is'} required`,
      `See 'gatehouse ${operation.words.join(' ')} --help'.`,
    )
  return { body: JSON.stringify(body), contentType: 'application/json' }
}

const flagFor = ({ flags }: Operation, field: string): string =>
  `--${flags.find(({ place, path: [name, ...below] }) => place === 'body' && name === field && below.length === 0)?.name ?? field}`

function parseObject(text: string): Json {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw usageFailure(`the body is not valid JSON: ${(cause as Error).message}`)
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    throw usageFailure('the body must be a JSON object')
  return value as Json
}

function set(body: Json, path: readonly string[], value: unknown): void {
  const [step = '', ...rest] = path
  if (rest.length === 0) {
    body[step] = value
    return
  }
  const inner = body[step]
  const inside = inner && typeof inner === 'object' ? { ...inner } : {}
  body[step] = inside
  set(inside as Json, rest, value)
}
