// HEAD answers like GET without a body, for every operation that GET has.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { routes } from '../../src/resources/routes.ts'
import type { Answer, Client, Options } from '../harness/client.ts'
import { newBackend, newHttpsEdge, newPolicy, newRoute, newTcpEdge } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import { headersOf, requestBytes } from '../harness/raw.ts'
import { pathOf } from '../harness/schemas.ts'
import { signIn } from '../harness/session.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const member = await newUser(plane, admin)

/** All headers but those that differ from one request to the next, and how a stream's body is sent, which HEAD has not. */
const ignored = ['operation-id', 'date', 'connection', 'keep-alive', 'transfer-encoding']
const comparable = ({ headers }: Answer) => [...headers].filter(([name]) => !ignored.includes(name))

async function assertAlike(as: Client, path: string, status?: number, options: Options = {}): Promise<void> {
  const ask = (method: string) => as(method, path, undefined, options)
  // A list of keys also shows when each was used last, which is written a moment later.
  const [get, head] = await poll(
    async (): Promise<[Answer, Answer, Answer]> => [await ask('GET'), await ask('HEAD'), await ask('GET')],
    ([before, , after]) => isDeepStrictEqual(comparable(before), comparable(after)),
  )
  assert.equal(head.status, status ?? get.status, path)
  assert.equal(get.status, head.status, path)
  assert.deepEqual(comparable(head), comparable(get), path)
  assert.match(head.headers.get('operation-id') ?? '', /^op_/, path)
  assert.equal(head.text, '', path)
}

const reads = routes.filter(({ method }) => method === 'GET')

for (const route of reads) {
  test(`HEAD for ${route.operation} has the status and the headers of GET`, async () => {
    await assertAlike(admin, pathOf(route))
    await assertAlike(member, pathOf(route))
    await assertAlike(admin, `${pathOf(route)}?nothing=1`, 400)
    await assertAlike(admin, pathOf(route), 401, { headers: { authorization: undefined } })
    await assertAlike(admin, pathOf(route), 400, { headers: { 'service-version': undefined } })
  })
}

test('HEAD shows the ETag and the length of what exists', async () => {
  const policy = await newPolicy(admin)
  const backend = await newBackend(admin)
  const route = await newRoute(admin, { backend: { backend_id: backend.id }, request_headers: { remove: ['Cookie'] } })
  const shown = [policy, backend, route, await newTcpEdge(admin), await newHttpsEdge(admin)]
  for (const uri of [...shown.map(({ uri }) => uri), `${route.uri}/backend`, `${route.uri}/request_headers`]) {
    await assertAlike(admin, uri, 200)
    const { headers } = await admin('HEAD', uri)
    assert.ok(headers.get('etag'), uri)
    assert.ok(Number(headers.get('content-length')) > 2, uri)
  }
  await assertAlike(admin, `/ip_policies/${policy.id}/rules`, 200, { headers: { accept: 'text/plain' } })
})

test('HEAD in a dashboard session needs no proof of origin, like GET', async () => {
  const browser = await signIn(admin)
  const withoutOrigin = { headers: { 'sec-fetch-site': undefined } }
  assert.equal((await browser('HEAD', '/caller', undefined, withoutOrigin)).status, 200)
  assert.equal((await browser('POST', '/ip_policies', {}, withoutOrigin)).status, 403)
})

test('no body follows the headers of HEAD, so the next response on the connection is read correctly', async () => {
  const socket = connect({ port: plane.processes[0]?.port ?? 0, host: '127.0.0.1' })
  const headers = headersOf(admin.token)
  const paths = ['/api_keys', '/nothing', '/caller']
  socket.write(Buffer.concat(paths.map((path) => requestBytes({ method: 'HEAD', path, headers }))))
  socket.write(requestBytes({ method: 'HEAD', path: '/caller', headers: [...headers, ['Connection', 'close']] }))
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  await once(socket, 'end')
  socket.destroy()
  const answers = Buffer.concat(chunks).toString().split('\r\n\r\n')
  assert.equal(answers.pop(), '')
  assert.deepEqual(
    answers.map((answer) => answer.split('\r\n')[0]),
    ['HTTP/1.1 200 OK', 'HTTP/1.1 404 Not Found', 'HTTP/1.1 200 OK', 'HTTP/1.1 200 OK'],
  )
})

test('HEAD on a path without GET gets 405, without a body', async () => {
  for (const path of ['/ip_checks', '/api_keys/ak_00000000000000000000000000/rotate']) {
    const { status, headers, text } = await admin('HEAD', path)
    assert.deepEqual([status, headers.get('allow'), text], [405, 'POST', ''], path)
  }
})
