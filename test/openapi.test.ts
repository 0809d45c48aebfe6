import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { errorCatalog } from '../src/kernel/errors.ts'
import { routes } from '../src/resources/routes.ts'
import { type Answer, checkAgainstDocument } from './harness/client.ts'

// biome-ignore lint/suspicious/noExplicitAny: it is the shape of this document that is in question here.
type Any = any
const document: Any = JSON.parse(readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'))
const operations: { path: string; method: string; operation: Any }[] = Object.entries(document.paths).flatMap(
  ([path, methods]) =>
    Object.entries(methods as Any).map(([method, operation]) => ({ path, method, operation: operation as Any })),
)
const resolve = (pointer: string): Any =>
  pointer
    .slice(2)
    .split('/')
    .reduce((value, step) => value?.[step.replaceAll('~1', '/').replaceAll('~0', '~')], document)
const deref = (value: Any): Any => (value.$ref ? resolve(value.$ref) : value)

function* valuesIn(value: unknown, at = '#'): Generator<[at: string, value: Any]> {
  if (value === null || typeof value !== 'object') return
  yield [at, value]
  for (const [name, inner] of Object.entries(value)) yield* valuesIn(inner, `${at}/${name}`)
}

test('openapi.json has what OpenAPI 3.1 requires of a document', () => {
  assert.match(document.openapi, /^3\.1\.\d+$/)
  for (const name of ['title', 'version']) assert.equal(typeof document.info[name], 'string')
  assert.ok(operations.length > 50)
  for (const { path, method } of operations) {
    assert.match(path, /^\/[\w{}/]+$/)
    assert.match(method, /^(get|put|post|delete|patch)$/)
  }
  for (const name of Object.keys(document.components).flatMap((kind) => Object.keys(document.components[kind])))
    assert.match(name, /^[a-zA-Z0-9._-]+$/)
})

test('every $ref in openapi.json resolves, and every component is used', () => {
  const used = new Set<string>()
  for (const [at, { $ref }] of valuesIn(document)) {
    if (typeof $ref !== 'string') continue
    assert.match($ref, /^#\//, at)
    assert.ok(resolve($ref), `${at} refers to ${$ref}`)
    used.add($ref)
  }
  for (const kind of ['schemas', 'parameters', 'headers', 'responses'])
    for (const name of Object.keys(document.components[kind]))
      assert.ok(used.has(`#/components/${kind}/${name}`), `nothing refers to ${kind}/${name}`)
  for (const requirement of document.security)
    for (const name of Object.keys(requirement)) assert.ok(document.components.securitySchemes[name])
})

test('every operation of the service is in openapi.json once, under an id of its own', () => {
  const ids = operations.map(({ operation }) => operation.operationId)
  assert.equal(new Set(ids).size, ids.length)
  assert.deepEqual(ids.sort(), routes.map(({ operation }) => operation).sort())
})

test('every parameter of a path is declared, and required; none is declared twice', () => {
  for (const { path, operation } of operations) {
    const parameters: Any[] = operation.parameters.map(deref)
    const names = parameters.map((parameter) => `${parameter.in} ${parameter.name}`)
    assert.equal(new Set(names).size, names.length, operation.operationId)
    const inPath = parameters.filter((parameter) => parameter.in === 'path')
    assert.ok(inPath.every(({ required }) => required === true))
    assert.deepEqual(
      inPath.map(({ name }) => name).sort(),
      [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort(),
    )
    for (const parameter of parameters) {
      assert.ok(['path', 'query', 'header'].includes(parameter.in))
      assert.equal(typeof parameter.schema, 'object')
    }
  }
})

test('every response has a status, a description and headers; every body a JSON schema', () => {
  for (const { operation, method } of operations) {
    assert.ok(operation.summary && operation.description && operation.tags.length === 1, operation.operationId)
    assert.ok(
      document.tags.some(({ name, description }: Any) => name === operation.tags[0] && description),
      operation.tags[0],
    )
    assert.equal(operation.requestBody !== undefined, ['post', 'put', 'patch'].includes(method), operation.operationId)
    for (const [status, reference] of Object.entries<Any>(operation.responses)) {
      const response = deref(reference)
      assert.match(status, /^[2-5]\d\d$/)
      assert.ok(response.description && response.headers['Operation-Id'], `${operation.operationId} ${status}`)
      assert.equal(response.content !== undefined, !['204', '304'].includes(status))
    }
  }
})

test('every schema in openapi.json is valid JSON Schema 2020-12 without unknown keywords', () => {
  const ajv = new Ajv2020({
    strict: true,
    allowUnionTypes: true,
    strictRequired: false,
    strictTypes: false,
    validateFormats: false,
  })
  for (const keyword of ['x-must', 'x-pem', 'x-maxBytes', 'x-cidr', 'x-moment', 'x-hostport', 'x-domain', 'x-default'])
    ajv.addKeyword(keyword)
  for (const keyword of ['x-volatile', 'x-shownOnce', 'x-setBy']) ajv.addKeyword(keyword)
  const absolute = (schema: unknown): object =>
    JSON.parse(JSON.stringify(schema).replaceAll('#/components/schemas/', 'component:'))
  for (const [name, schema] of Object.entries(document.components.schemas))
    ajv.addSchema({ ...absolute(schema), $id: `component:${name}` })
  let compiled = 0
  for (const [at, { schema }] of valuesIn(document)) {
    if (typeof schema !== 'object') continue
    assert.doesNotThrow(() => ajv.compile(absolute(schema)), at)
    compiled++
  }
  assert.ok(compiled > 200, `${compiled} schemas`)
})

test('no schema has a default, which generated clients send with every PATCH or demand with every POST', () => {
  const found = [...valuesIn(document)].filter(([at, value]) => 'default' in value && !at.endsWith('/properties'))
  assert.deepEqual(
    found.map(([at]) => at),
    [],
  )
})

test('no field of a PATCH is described with a default, because PATCH keeps omitted fields', () => {
  const updates = operations.filter(({ method }) => method === 'patch')
  assert.ok(updates.length > 10)
  for (const { operation } of updates) {
    const { properties } = deref(operation.requestBody.content['application/json'].schema)
    for (const [name, field] of Object.entries<Any>(properties)) {
      assert.doesNotMatch(field.description ?? '', /Default: /, `${operation.operationId} ${name}`)
      assert.ok(!('x-default' in field), `${operation.operationId} ${name}`)
    }
  }
})

test('the description of every operation says who may call it, as the table in docs/reference/roles-and-scopes.md does', () => {
  const page = readFileSync(new URL('../docs/reference/roles-and-scopes.md', import.meta.url), 'utf8')
  const rows = page.matchAll(/^\| `([\w.]+)` \| `.+` \| (\w+) \| (\w+) \| (\w+) \|$/gm)
  const said = Object.fromEntries(operations.map(({ operation }) => [operation.operationId, operation.description]))
  let checked = 0
  for (const [, id = '', viewer, member] of rows) {
    checked++
    if (/Needs no credentials/.test(said[id])) continue
    const base =
      member === 'no' ? /Admins only\./ : viewer === 'no' ? /except viewers\./ : /every user and bot of the account\./
    assert.match(said[id], base, id)
    assert.equal(/Only admins can /.test(said[id]), member === 'some', id)
  }
  assert.equal(checked, operations.length)
})

test('If-Match, Idempotency-Key and their response headers and statuses are described wherever they apply', () => {
  for (const { operation, method, path } of operations) {
    const sent = operation.parameters.map((parameter: Any) => deref(parameter).name)
    // Signing in twice is two sessions: there is nothing to repeat.
    const creates =
      ('201' in operation.responses && operation.operationId !== 'dashboard_session.sign_in') ||
      /^(api_keys\.rotate|reserved_domains\.verify|change_sets\.(apply|confirm|approve|withdraw)|rollouts\.(halt|resume|release)|webhook_destinations\.(rotate|test)|alert_rules\.test)$/.test(
        operation.operationId,
      )
    const changes = operation.operationId.match(
      /\.(update|delete|replace|rotate|test|verify|apply|confirm|approve|withdraw|halt|resume|release)$/,
    )
    assert.equal(sent.includes('Idempotency-Key'), creates, operation.operationId)
    assert.equal(sent.includes('If-Match'), changes !== null, operation.operationId)
    assert.equal('412' in operation.responses, changes !== null, operation.operationId)
    const success = operation.responses[200] ?? operation.responses[201]
    if (creates) assert.ok(operation.responses[409] && success.headers['Idempotency-Replayed'])
    if (
      /\.(create|get|update|replace|rotate)$/.test(operation.operationId) &&
      !/^(caller|dashboard_session|ip_activity|traffic_statistics|ip_checks|generations|backend_health)/.test(
        operation.operationId,
      )
    )
      assert.ok(success.headers.ETag, `${method} ${path}`)
  }
})

test('every error in the catalog is described by an operation, except those that precede routing', () => {
  const described = new Set(
    [...valuesIn(document.components.responses)].flatMap(([, value]) => value.properties?.error_code?.enum ?? []),
  )
  const missing = new Set(Object.keys(errorCatalog)).difference(described)
  assert.deepEqual([...missing].sort(), [
    'ERR_EXPECTATION',
    'ERR_HEADERS_TOO_LARGE',
    'ERR_METHOD_NOT_ALLOWED',
    'ERR_ROUTE_NOT_FOUND',
  ])
})

// The test client asks checkAgainstDocument() about every answer in every test. It must not be blind.
const operationId = 'op_01m7ejpdmye00bh323tz5gx11a'
const backend = {
  id: 'bkdst_01m7ejpdmye00bh323tz5gx11a',
  uri: 'https://a/b',
  created_at: '2026-01-01T00:00:00.000Z',
  address: 'a:1',
  tls: { enabled: true },
  protocol: 'http1',
  send_proxy_protocol: false,
  health_check: null,
}
const answer = (status: number, body: unknown, headers: Record<string, string> = {}): Answer => ({
  status,
  headers: new Headers({ 'operation-id': operationId, ...headers }),
  body,
  text: body === undefined ? '' : JSON.stringify(body),
})
const error = (status: number, error_code: string) =>
  answer(status, { error_code, status_code: status, msg: 'No.', details: { operation_id: operationId } })
const tag = { etag: '"x"' }
const path = '/backends/static'

test('the test client accepts answers that openapi.json describes', () => {
  checkAgainstDocument('GET', `${path}/${backend.id}`, answer(200, backend, tag))
  checkAgainstDocument(
    'POST',
    path,
    answer(201, backend, { ...tag, location: backend.uri, 'service-generation': '7', 'idempotency-replayed': 'true' }),
  )
  checkAgainstDocument('PATCH', `${path}/${backend.id}`, error(412, 'ERR_PRECONDITION_FAILED'))
  checkAgainstDocument('POST', path, error(409, 'ERR_IDEMPOTENCY_KEY_USED'))
  checkAgainstDocument('DELETE', `${path}/${backend.id}`, error(409, 'ERR_BACKEND_IN_USE'))
})

const undescribed: [what: string, method: string, path: string, answer: Answer][] = [
  ['a status', 'GET', `${path}/x`, error(409, 'ERR_BACKEND_IN_USE')],
  ['a 412 where there is no If-Match', 'GET', `${path}/x`, error(412, 'ERR_PRECONDITION_FAILED')],
  ['an error code of another operation', 'POST', path, error(409, 'ERR_MATCH_TAKEN')],
  ['an error code of another status', 'DELETE', `${path}/x`, error(412, 'ERR_BACKEND_IN_USE')],
  ['an error code that there is not', 'DELETE', `${path}/x`, error(409, 'ERR_OTHER')],
  ['a missing ETag', 'GET', `${path}/x`, answer(200, backend)],
  [
    'an ETag where none is described',
    'GET',
    path,
    answer(200, { backends: [], uri: 'https://a', next_page_uri: null }, tag),
  ],
  [
    'a header of the service that is not described',
    'GET',
    `${path}/x`,
    answer(200, backend, { ...tag, 'service-generation': '7' }),
  ],
  ['a header with another value', 'POST', path, answer(201, backend, { ...tag, 'idempotency-replayed': 'no' })],
  ['a field', 'GET', `${path}/x`, answer(200, { ...backend, extra: 1 }, tag)],
  ['a missing field', 'GET', `${path}/x`, answer(200, { ...backend, tls: undefined }, tag)],
  ['a body with 204', 'DELETE', `${path}/x`, answer(204, {})],
]
for (const [what, method, at, forged] of undescribed) {
  test(`the test client refuses ${what} that openapi.json does not describe`, () => {
    assert.throws(() => checkAgainstDocument(method, at, forged), assert.AssertionError)
  })
}
