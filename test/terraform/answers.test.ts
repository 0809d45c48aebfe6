// What the provider makes of answers that it did not hope for: what is in the diagnostics is what Terraform prints.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { messagesOf, packed, type State, startProvider, unpacked } from './provider.ts'

type Answer = { status?: number; body?: unknown; headers?: Record<string, string> }
type Answers = (request: IncomingMessage) => Answer

const policy = {
  id: 'ipp_1',
  uri: 'https://gatehouse.example/ip_policies/ipp_1',
  created_at: '2026-01-01T00:00:00.000Z',
}
const state: State = { ...policy, description: null, metadata: null }
const config: State = { id: null, uri: null, created_at: null, description: null, metadata: null }

let answers: Answers = () => ({})
const server = createServer((request, response) => {
  const { status = 200, body = {}, headers = {} } = answers(request)
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const ours = { 'content-type': 'application/json', 'operation-id': 'op_1' }
  request.resume().on('end', () => response.writeHead(status, { ...ours, ...headers }).end(text))
}).listen(0, '127.0.0.1')
await once(server, 'listening')
after(() => server.close())
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
const { call } = await startProvider({ after }, { GATEHOUSE_URL: origin, GATEHOUSE_API_KEY: 'gatehouse_x' })

/** The provider, with a service that answers so once the provider is configured. */
function providerFor(given: Answers) {
  const type_name = 'gatehouse_ip_policy'
  return {
    async configure({ answersToo = false, block = {} }: { answersToo?: boolean; block?: State } = {}) {
      answers = answersToo ? given : () => ({})
      const response = await call('ConfigureProvider', { config: packed(block) })
      answers = given
      return messagesOf(response)
    },
    async read(before: State = state) {
      const response = await call('ReadResource', { type_name, current_state: packed(before) })
      return { messages: messagesOf(response), state: unpacked(response.new_state) }
    },
    async create(given: object, type = type_name) {
      const whole = { ...config, ...given }
      const planned = packed({ ...whole })
      const request = { type_name: type, prior_state: packed(null), planned_state: planned, config: packed(whole) }
      const response = await call('ApplyResourceChange', request)
      return { response, messages: messagesOf(response), state: unpacked(response.new_state) }
    },
  }
}
const refusal = (status_code: number, error_code: string, msg: string, details: object = {}): Answer => ({
  status: status_code,
  body: { error_code, status_code, msg, details: { operation_id: 'op_1', ...details } },
})

test('a token that is not accepted is reported once, with the place where it is set', async () => {
  const provider = providerFor(() => refusal(401, 'ERR_UNAUTHENTICATED', 'no'))
  const messages = await provider.configure({ answersToo: true })
  assert.equal(messages.length, 1)
  assert.match(messages[0] ?? '', /does not accept the token of GATEHOUSE_API_KEY.*\nThe token is mistyped, deleted/)
})

test('a limit of requests is waited for, longer than the command line would', async () => {
  let asked = 0
  const provider = providerFor(() =>
    ++asked <= 5
      ? { ...refusal(429, 'ERR_RATE_LIMITED', 'Too many requests.'), headers: { 'retry-after': '0' } }
      : { body: policy },
  )
  await provider.configure()
  const { messages, state: read } = await provider.read()
  assert.deepEqual([messages, read, asked], [[], state, 6])
})

test('attempts with a wrong token are not repeated', async () => {
  let asked = 0
  const provider = providerFor(() => {
    asked++
    return { ...refusal(429, 'ERR_TOO_MANY_ATTEMPTS', 'Too many attempts.'), headers: { 'retry-after': '0' } }
  })
  await provider.configure()
  assert.match((await provider.read()).messages[0] ?? '', /^Too many attempts\./)
  assert.equal(asked, 1)
})

test('a field that this version does not know is ignored, and one that an older service lacks stays as it is', async () => {
  const provider = providerFor(({ url = '' }) => ({
    body: url.startsWith('/backends') ? { ...policy, address: 'a.internal:80' } : { ...policy, color: ['red'] },
  }))
  await provider.configure()
  assert.deepEqual((await provider.read()).state, state)
  const backend: State = { ...state, address: 'a.internal:80', protocol: 'http2', tls: { enabled: true } }
  const older = { ...backend, send_proxy_protocol: false, health_check: null }
  const response = await call('ReadResource', {
    type_name: 'gatehouse_static_backend',
    current_state: packed(older),
  })
  assert.deepEqual(unpacked(response.new_state), older)
})

test('a value of another type, something else than JSON and another program are reported as such', async () => {
  const left: Answer[] = [
    { body: { ...policy, description: 7 } },
    { body: [policy] },
    { body: '{"id": ' },
    { body: '<html><title>Sign in</title>', headers: { 'content-type': 'text/html' } },
  ]
  const provider = providerFor(() => left.shift() ?? assert.fail())
  await provider.configure()
  const told = []
  while (left.length) told.push((await provider.read()).messages[0]?.split('\n')[0])
  assert.match(told[0] ?? '', /answered with a description that is not a string: 7\./)
  assert.match(told[1] ?? '', /JSON that is not an object/)
  assert.match(told[2] ?? '', /not valid JSON/)
  assert.match(told[3] ?? '', /is not Gatehouse: 200 with an HTML page titled 'Sign in'/)
})

test('what was created is not lost when its answer cannot be read, and a path that is not known deletes nothing', async () => {
  const left: Answer[] = [
    { status: 201, body: { ...policy, created_at: 7 } },
    refusal(404, 'ERR_ROUTE_NOT_FOUND', 'There is no such path.'),
    refusal(404, 'ERR_NOT_FOUND', 'There is no such policy.'),
  ]
  const provider = providerFor(() => left.shift() ?? assert.fail())
  await provider.configure()
  const created = await provider.create({ description: 'office' })
  assert.match(created.messages[0] ?? '', /a created_at that is not a string: 7/)
  assert.equal(created.state?.id, policy.id)
  const unknownPath = await provider.read()
  assert.match(unknownPath.messages[0] ?? '', /^There is no such path\.\nThe service is probably older/)
  assert.deepEqual(await provider.read(), { messages: [], state: null })
})

test('a quota is explained, and the field at fault is named by its path', async () => {
  const left: Answer[] = [
    refusal(409, 'ERR_QUOTA', 'The account has 100 of 100 ip_policies.', { limit: '100' }),
    refusal(400, 'ERR_INVALID_FIELD', 'description must be shorter', { field: 'description', errors: 'description' }),
  ]
  const provider = providerFor(() => left.shift() ?? assert.fail())
  await provider.configure()
  const quota = await provider.create({})
  assert.match(quota.messages[0] ?? '', /^The account has 100 of 100 ip_policies\.\nlimit: 100\n.+\n.*ERR_QUOTA, op_1/)
  assert.equal(quota.state, null)
  const { response } = await provider.create({ description: 'x' })
  assert.deepEqual(
    response.diagnostics[0].attribute.steps.map((step: { attribute_name: string }) => step.attribute_name),
    ['description'],
  )
})

test('a secret that was lost with its response is a warning, and the resource is not', async () => {
  const key = { ...policy, id: 'ak_1', token: null, owner_id: 'usr_1', created_by_key_id: null, expires_at: null }
  const provider = providerFor(() => ({
    status: 201,
    body: { ...key, scopes: ['*'], allowed_cidrs: [], rotated_at: null },
  }))
  await provider.configure()
  const { response, state: created } = await provider.create({}, 'gatehouse_api_key')
  assert.equal(response.diagnostics[0].severity, 2)
  assert.match(response.diagnostics[0].summary, /its token is not shown again/)
  assert.equal(created?.id, 'ak_1')
})

test('with wait, each change asks for it, and a node that is behind is a warning: an error would replace the resource', async () => {
  const asked: string[] = []
  const provider = providerFor(({ url = '' }) => {
    asked.push(url)
    const headers = { 'service-generation': '7', 'service-applied': '1/2', 'service-behind': 'edge-2' }
    return { status: 201, body: policy, headers }
  })
  assert.match((await provider.configure({ block: { wait: 'released' } }))[0] ?? '', /^wait must be "applied"/)
  // Creating a policy locks no one out, and takes no such parameter.
  assert.deepEqual(await provider.configure({ block: { wait: 'applied', allow_self_lockout: true } }), [])
  const { response, state: created } = await provider.create({})
  assert.deepEqual(asked, ['/ip_policies?wait=applied'])
  assert.equal(response.diagnostics[0].severity, 2)
  assert.match(response.diagnostics[0].summary, /only 1\/2 live edge nodes have applied it\. Behind: edge-2/)
  assert.equal(created?.id, policy.id)
})

test('a token is not sent to another service than the one that it is for', async () => {
  const response = await call('ConfigureProvider', { config: packed({ url: 'https://other.example' }) })
  assert.match(messagesOf(response)[0] ?? '', /url is https:\/\/other\.example, but GATEHOUSE_API_KEY is for/)
})
