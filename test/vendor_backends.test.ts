// Backends as the vendor's libraries create, read, list, change and delete them: bodies and types from the public sources
// of the Go client (datatypes.go, backends/) and of the Python client (services.py).
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from './harness/control_plane.ts'
import { annotated, listOf, type Shape, vendorClients, vendorSession } from './harness/vendor.ts'

const plane = await startControlPlane({ after }, { env: { GATEHOUSE_VERSION_HEADER_ALIASES: 'Ngrok-Version' } })

const StaticBackend: Shape = { ...annotated, address: 'string', tls: { enabled: 'boolean' } }
const WeightedBackend: Shape = { ...annotated, backends: 'numbers' }
const FailoverBackend: Shape = { ...annotated, backends: 'strings' }
const ResponseBackend: Shape = { ...annotated, body: 'string', headers: 'texts', status_code: 'number' }
const ErrorBody: Shape = { error_code: 'string', msg: 'string', details: 'texts' }

for (const [name, sender] of Object.entries(vendorClients)) {
  const isPython = name === 'Python'
  const start = async () => {
    const calls = await vendorSession(plane, sender)
    const newServer = () => calls.create('/backends/static', StaticBackend, { address: 'app.internal:8080' })
    return { ...calls, servers: [(await newServer()).id, (await newServer()).id] as [string, string] }
  }

  test(`the ${name} client manages weighted backends`, async () => {
    const { send, create, patch, servers } = await start()
    const [a, b] = servers
    const group = await create('/backends/weighted', WeightedBackend, { backends: { [a]: 90, [b]: 10 } })
    assert.deepEqual(group.backends, { [a]: 90, [b]: 10 })
    const path = `/backends/weighted/${group.id}`
    assert.deepEqual(await send('GET', path, 200, WeightedBackend), group)
    const drained = await patch(path, WeightedBackend, { id: group.id }, { backends: { [a]: 0, [b]: 10 } })
    assert.deepEqual(drained.backends, { [a]: 0, [b]: 10 })
    // The Python client sends an empty map where the others send nothing.
    const omitted = isPython ? { backends: {} } : {}
    const renamed = await patch(path, WeightedBackend, { id: group.id }, { description: 'app', ...omitted })
    assert.deepEqual(renamed, { ...drained, description: 'app' })
    const listed = await send('GET', '/backends/weighted?limit=100', 200, listOf('backends', WeightedBackend))
    assert.deepEqual(listed.backends, [renamed])
    await send('DELETE', path, 204)
    await send('GET', path, 404, ErrorBody)
  })

  test(`the ${name} client manages failover backends`, async () => {
    const { send, create, patch, servers } = await start()
    const [a, b] = servers
    const group = await create('/backends/failover', FailoverBackend, { backends: [a, b] })
    assert.deepEqual(group.backends, [a, b])
    const path = `/backends/failover/${group.id}`
    assert.deepEqual(await send('GET', path, 200, FailoverBackend), group)
    const swapped = await patch(path, FailoverBackend, { id: group.id }, { backends: [b, a] })
    assert.deepEqual(swapped.backends, [b, a])
    const omitted = isPython ? { backends: [] } : {}
    const renamed = await patch(path, FailoverBackend, { id: group.id }, { metadata: 'm', ...omitted })
    assert.deepEqual(renamed, { ...swapped, metadata: 'm' })
    const listed = await send('GET', '/backends/failover?limit=100', 200, listOf('backends', FailoverBackend))
    assert.deepEqual(listed.backends, [renamed])
    await send('DELETE', path, 204)
  })

  test(`the ${name} client manages HTTP response backends`, async () => {
    const { send, create, patch } = await start()
    const sent = { body: 'Back <soon> & é', headers: { 'retry-after': '60' }, status_code: 503 }
    const response = await create('/backends/http_response', ResponseBackend, sent)
    assert.deepEqual({ ...response, ...sent }, response)
    const path = `/backends/http_response/${response.id}`
    assert.deepEqual(await send('GET', path, 200, ResponseBackend), response)
    const changed = await patch(path, ResponseBackend, { id: response.id }, { body: 'Gone', status_code: 410 })
    assert.deepEqual(changed, { ...response, body: 'Gone', status_code: 410 })
    // Without arguments the Python client sends an empty body and no headers, and the others send nothing.
    const empty = isPython ? { body: '', headers: {} } : {}
    const bare = await create('/backends/http_response', ResponseBackend, empty)
    assert.deepEqual([bare.status_code, bare.headers, bare.body], [200, {}, ''])
    const listed = await send('GET', '/backends/http_response?limit=100', 200, listOf('backends', ResponseBackend))
    assert.deepEqual(listed.backends, [bare, changed])
    const refused = await send('POST', '/backends/http_response', 400, ErrorBody, { headers: { Connection: 'close' } })
    assert.equal(refused.details.field, 'headers.Connection')
    await send('DELETE', path, 204)
  })
}

test('header names that the TypeScript client has rewritten are refused in responses, too', async () => {
  const { send } = await vendorSession(plane, vendorClients.TypeScript ?? assert.fail())
  const mangled = { headers: { '_retry-_after': '60' } }
  const refused = await send('POST', '/backends/http_response', 400, ErrorBody, mangled)
  assert.equal(refused.details.field, 'headers._retry-_after')
})
