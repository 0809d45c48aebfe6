import assert from 'node:assert/strict'
import { once } from 'node:events'
import { appendFileSync, readFileSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { type AnswerHeaders, receivedHeaders } from './received_headers.ts'
import { testRun } from './test_run.ts'

// biome-ignore lint/suspicious/noExplicitAny: a test reads the fields it expects; the body was checked against openapi.json.
export type Answer = { status: number; headers: AnswerHeaders; body: any; text: string }
export type Options = {
  headers?: Record<string, string | undefined>
  process?: number
  rawBody?: string | Buffer
  contentType?: string
}
export type Client = {
  (method: string, pathOrUri: string, body?: unknown, options?: Options): Promise<Answer>
  readonly token: string
}

export const publicUrl = 'https://api.gatehouse.test'

type Response = { headers: Record<string, { $ref: string }>; content?: Record<string, { schema: object }> }
type Responses = Record<string, Response | { $ref: string }>
type Operation = { operationId: string; responses: Responses; 'x-responses'?: Responses }
type Document = {
  paths: Record<string, Record<string, Operation>>
  components: {
    headers: Record<string, { required?: boolean; schema: object }>
    responses: object
    schemas: Record<string, object>
  }
}
const document: Document = JSON.parse(readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8'))

const deref = <Value extends object>(value: Value | { $ref: string }): Value =>
  '$ref' in value
    ? (value.$ref
        .slice(2)
        .split('/')
        .reduce((place: unknown, step) => (place as Record<string, unknown>)[step], document) as Value)
    : value

// That the document is well-formed is checked elsewhere, once, and not at the start of every test file.
// Validators are used a few times each: making them fast would cost more than it saves, and so would a copy of each shared part
// in each of them.
const ajv = new Ajv2020({
  strict: false,
  validateFormats: false,
  validateSchema: false,
  meta: false,
  inlineRefs: false,
  code: { optimize: false },
})
const validators = new Map<object, ValidateFunction>()

/** Only with the shared schemas that it refers to: to look through all of the document takes longer than most tests. */
function validatorOf(schema: object): ValidateFunction {
  let validate = validators.get(schema)
  if (!validate) {
    validate = ajv.compile(closed(schema) as object)
    validators.set(schema, validate)
  }
  return validate
}

const shared = '#/components/schemas/'
const known = new Set<string>()

/**
 * The document allows fields of later versions in responses. This version must not have undescribed ones. References are to
 * schemas that the validator knows by their names.
 */
function closed(value: unknown): unknown {
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map(closed)
  if ('$ref' in value && typeof value.$ref === 'string') return { ...value, $ref: nameOfShared(value.$ref) }
  const copy = Object.fromEntries(Object.entries(value).map(([name, part]) => [name, closed(part)]))
  if ('properties' in copy && copy.type === 'object' && !('additionalProperties' in copy))
    copy.additionalProperties = false
  return copy
}

function nameOfShared(ref: string): string {
  assert.ok(ref.startsWith(shared), `openapi.json refers to ${ref}, which is no shared schema`)
  const name = `schema:${ref.slice(shared.length)}`
  // Before what it refers to, which may be itself.
  if (!known.has(name)) {
    known.add(name)
    ajv.addSchema(closed(document.components.schemas[ref.slice(shared.length)] ?? assert.fail(ref)) as object, name)
  }
  return name
}
const patterns = Object.entries(document.paths).map(([path, operations]) => ({
  path,
  operations,
  pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`),
}))

/** Headers about the operation; the others belong to HTTP. */
const telling = /^(etag|operation-id|set-cookie|service-.*|idempotency-.*|ratelimit.*)$/

function checkHeaders({ operationId }: Operation, { headers: described }: Response, { status, headers }: Answer): void {
  const names = new Set(Object.keys(described).map((name) => name.toLowerCase()))
  for (const name of headers.keys())
    assert.ok(
      !telling.test(name) || names.has(name),
      `openapi.json does not describe ${name} of ${operationId} ${status}`,
    )
  for (const [name, { $ref }] of Object.entries(described)) {
    const { required, schema } = document.components.headers[$ref.split('/').at(-1) ?? ''] ?? assert.fail($ref)
    const value = headers.get(name)
    assert.ok(value !== null || !required, `${operationId} ${status} lacks ${name}`)
    assert.ok(value === null || ajv.validate(schema, value), `${operationId} ${status} has ${name}: ${value}`)
  }
}

const dryRunResult = { $ref: `${shared}DryRunResult` }

/** Every response must match openapi.json: status, headers, body and error code. */
export function checkAgainstDocument(method: string, pathAndQuery: string, answer: Answer): void {
  const [path = '', query = ''] = pathAndQuery.split('?')
  const known = patterns.find(({ pattern }) => pattern.test(path))
  const operation = known?.operations[method.toLowerCase()]
  if (!known || !operation) return
  if (answer.status === 200 && new URLSearchParams(query).get('dry_run') === 'true') {
    checkBody(dryRunResult, answer, `dry run of ${operation.operationId}`)
    return
  }
  const described = { ...operation.responses, ...operation['x-responses'] }[answer.status]
  assert.ok(
    described,
    `openapi.json does not describe status ${answer.status} of ${operation.operationId}: ${answer.text}`,
  )
  const response = deref(described)
  assert.match(answer.headers.get('operation-id') ?? '', /^op_[0-9a-z]{26}$/)
  checkHeaders(operation, response, answer)
  if (!response.content) {
    assert.equal(answer.text, '', `${operation.operationId} ${answer.status} has no body in openapi.json`)
    return
  }
  const type = answer.headers.get('content-type')?.split(';')[0] ?? 'application/json'
  const content = response.content[type]
  assert.ok(content, `openapi.json does not describe ${type} of ${operation.operationId}`)
  if (type === 'application/json') checkBody(content.schema, answer, operation.operationId)
}

function checkBody(schema: object, { status, body, text }: Answer, what: string): void {
  const validate = validatorOf(schema)
  assert.ok(validate(body), `${what} ${status} does not fit openapi.json: ${ajv.errorsText(validate.errors)}\n${text}`)
}

const agent = new Agent({ keepAlive: true })

const isStream = ({ headers }: IncomingMessage): boolean =>
  headers['content-type']?.startsWith('text/event-stream') ?? false

/** What comes first of a response that stays open. HEAD has none. */
async function beginningOf(response: IncomingMessage): Promise<Buffer> {
  const [chunk] = await Promise.race([once(response, 'data'), once(response, 'end')])
  response.destroy()
  return chunk ?? Buffer.alloc(0)
}

/** Not by `fetch`: within a test that takes four times as much processor time, more than the service needs to answer. */
async function exchange(
  url: string,
  method: string,
  headers: Record<string, string | undefined>,
  sent: string | Buffer | undefined,
): Promise<Answer> {
  const given = Object.entries(headers).filter(([, value]) => value !== undefined)
  const usual = { accept: '*/*', 'accept-encoding': 'gzip' }
  const outgoing = request(url, { agent, method, headers: { ...usual, ...Object.fromEntries(given) } })
  outgoing.end(sent)
  // It may answer and close before it has read everything; what matters then is the answer.
  outgoing.on('error', () => {})
  const response: IncomingMessage = (await once(outgoing, 'response'))[0]
  const bytes = await (isStream(response) ? beginningOf(response) : buffer(response))
  const isPacked = bytes.length > 0 && response.headers['content-encoding'] === 'gzip'
  const body = (isPacked ? gunzipSync(bytes) : bytes).toString()
  const received = receivedHeaders(response.headersDistinct)
  const isJson = received.get('content-type')?.startsWith('application/json')
  return {
    status: response.statusCode ?? 0,
    headers: received,
    // HEAD declares the type of a body that it does not have.
    body: isJson && method !== 'HEAD' ? JSON.parse(body) : undefined,
    text: body,
  }
}

/** Calls the running processes as a customer would, and records every issued token for the final search. */
export function createClient(origins: string[], token: string): Client {
  noteToken(token)
  const call = async (method: string, pathOrUri: string, body?: unknown, options: Options = {}): Promise<Answer> => {
    const path = pathOrUri.startsWith(publicUrl) ? pathOrUri.slice(publicUrl.length) : pathOrUri
    const sent = options.rawBody ?? (body === undefined ? undefined : JSON.stringify(body))
    const headers: Record<string, string | undefined> = {
      authorization: `Bearer ${token}`,
      'service-version': '2',
      'content-type': sent === undefined ? undefined : (options.contentType ?? 'application/json'),
      ...options.headers,
    }
    const answer = await exchange(`${origins[options.process ?? 0]}${path}`, method, headers, sent)
    if (typeof answer.body?.token === 'string') noteToken(answer.body.token)
    if (typeof answer.body?.link === 'string') noteToken(answer.body.link.split('#')[1] ?? '')
    for (const cookie of answer.headers.getSetCookie()) noteToken(cookie.split(/[=;]/)[1] ?? '')
    checkAgainstDocument(method, path, answer)
    return answer
  }
  return Object.assign(call, { token })
}

export function noteToken(token: string): void {
  if (token.startsWith('gatehouse_')) appendFileSync(join(testRun.folder, 'tokens'), `${token}\n`)
}
