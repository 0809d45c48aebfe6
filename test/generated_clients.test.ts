import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { fixturesWith } from './generated_clients/fixtures.ts'
import { generateClients } from './generated_clients/generate.ts'
import { freshHost } from './harness/fixtures.ts'
import { sharedControlPlane } from './harness/shared_control_plane.ts'

// biome-ignore lint/suspicious/noExplicitAny: generated code and the document are read by name here; the programs are typed.
type Any = any
const document: Any = JSON.parse(readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'))
const updates = Object.entries<Any>(document.paths)
  .filter(([, { patch }]) => patch)
  .map(([path, { patch }]) => {
    const schemaName: string = patch.requestBody.content['application/json'].schema.$ref.split('/').at(-1)
    return { path, operationId: patch.operationId as string, schemaName }
  })
const fieldsOf = (schemaName: string) => Object.keys(document.components.schemas[schemaName].properties)
const fill = (path: string, params: Record<string, string>) =>
  path.replaceAll(/\{(\w+)\}/g, (_, name) => params[name] ?? assert.fail(name))

const [folder, plane] = await Promise.all([generateClients({ after }), sharedControlPlane({ after })])
const load = (name: string): Promise<Any> => import(join(folder, name))
const account = await plane.newAccount()
const fixtures = fixturesWith(plane.freshTcpPort)
const origin = plane.processes[0]?.origin ?? assert.fail()

type Patch = (update: (typeof updates)[number], params: Record<string, string>, body: object) => Promise<number>
const [openapiFetch, heyApi, sdk, zod] = await Promise.all(
  ['openapi_fetch.js', 'hey_api.js', 'hey_api/sdk.gen.js', 'hey_api/zod.gen.js'].map(load),
)
const clients: Record<string, { program: Any; patch: Patch }> = {
  'openapi-fetch': {
    program: openapiFetch,
    async patch({ path }, params, body) {
      const client = openapiFetch.connect(origin, account.token)
      return (await client.PATCH(path, { params: { path: params }, body })).response.status
    },
  },
  'hey-api with Zod': {
    program: heyApi,
    async patch({ operationId, schemaName }, params, body) {
      const client = heyApi.connect(origin, account.token)
      const call = operationId.replaceAll(/[._](\w)/g, (_, first) => first.toUpperCase())
      const parsed = zod[`z${schemaName}`].parse(body)
      return (await sdk[call]({ client, path: params, body: parsed })).response.status
    },
  },
}

test('every resource that PATCH changes has a fixture for the generated clients', () => {
  assert.deepEqual(updates.map(({ operationId }) => operationId).sort(), Object.keys(fixtures).sort())
})

const names = Array.from({ length: 51 }, (_, index) => `X-${index}`)
const forbidden: [what: string, path: string, method: string, schema: string, body: object][] = [
  ['a check of no kind of traffic', '/ip_checks', 'POST', 'IpCheckCreate', { ip: '203.0.113.7' }],
  [
    '51 headers',
    '/backends/http_response',
    'POST',
    'HttpResponseBackendCreate',
    { headers: Object.fromEntries(names.map((name) => [name, '1'])) },
  ],
  [
    'a header name with a space',
    '/backends/http_response',
    'POST',
    'HttpResponseBackendCreate',
    { headers: { 'X One': '1' } },
  ],
  ['51 headers to remove', 'route', 'PATCH', 'HttpsEdgeRouteUpdate', { request_headers: { remove: names } }],
  ['half of a certificate', 'certificate', 'PATCH', 'TlsCertificateUpdate', { certificate_pem: 'x' }],
  ['a replay of everything', 'destination', 'POST', 'WebhookDestinationReplay', {}],
  [
    'a replay of two kinds',
    'destination',
    'POST',
    'WebhookDestinationReplay',
    { event_ids: ['ev_01jz3v8q4se5x9y2m7n6k0abcd'], since: '2026-11-01T00:00:00Z' },
  ],
]

test('bodies that openapi.json forbids because of several fields, or the size of one, are refused', async () => {
  const at = async (operationId: string) => {
    const { params } = (await fixtures[operationId]?.(account)) ?? assert.fail(operationId)
    return params
  }
  const { edge_id, id } = await at('https_edge_routes.update')
  const places: Record<string, string> = {
    route: `/edges/https/${edge_id}/routes/${id}`,
    certificate: `/tls_certificates/${(await at('tls_certificates.update')).id}`,
    destination: `/webhook_destinations/${(await at('webhook_destinations.update')).id}/replay`,
  }
  const ajv = new Ajv2020({ strict: false, validateFormats: false, validateSchema: false })
  ajv.addSchema(document, 'openapi.json')
  for (const [what, path, method, schema, body] of forbidden) {
    assert.equal(ajv.validate({ $ref: `openapi.json#/components/schemas/${schema}` }, body), false, what)
    const answer = await account(method, places[path] ?? path, body)
    assert.equal(answer.status, 400, `${what}: ${answer.text}`)
  }
})

const sha256Of = ({ content_sha256 }: { content_sha256?: string }) => content_sha256 && { content_sha256 }

for (const [name, { program, patch }] of Object.entries(clients)) {
  test(`a program that uses ${name} sends required fields only, and the version once`, async () => {
    const client = program.connect(origin, account.token)
    const { websocket, keys } = await program.serve(client, `${freshHost()}:443`)
    assert.equal(websocket, true)
    assert.ok(keys > 0)
  })

  for (const update of updates) {
    test(`${name}: ${update.operationId} of one field leaves every other field alone`, async () => {
      const one = (await fixtures[update.operationId]?.(account)) ?? assert.fail(update.operationId)
      const unset = fieldsOf(update.schemaName).filter((name) => !(name in { ...one.sent, ...one.params }))
      assert.deepEqual(unset, [], 'the fixture must set every field that PATCH takes')
      const uri = fill(update.path, one.params)
      const { body: before } = await account('GET', uri)
      const field = fieldsOf(update.schemaName).includes('description') ? 'description' : 'name'
      assert.equal(await patch(update, one.params, { [field]: 'changed' }), 200)
      const { body: after } = await account('GET', uri)
      // A change set's hash is of all that it has.
      assert.deepEqual(after, { ...before, [field]: 'changed', ...sha256Of(after) })
    })
  }
}
