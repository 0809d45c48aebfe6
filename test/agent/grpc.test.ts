// gRPC through a real HAProxy, with the client and server of @grpc/grpc-js.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer as createHttp1Server } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import {
  Client,
  credentials,
  type handleBidiStreamingCall,
  type handleUnaryCall,
  Metadata,
  Server,
  ServerCredentials,
  type ServiceError,
  status,
} from '@grpc/grpc-js'
import { get, putHttpsEdge, putRoute } from './http_harness.ts'
import { type Edge, id, selfSigned, startEdge } from './proxy_harness.ts'

const certificates = ['app.example.com']
const bytes = { requestSerialize: same, requestDeserialize: same, responseSerialize: same, responseDeserialize: same }
function same(value: Buffer): Buffer {
  return value
}
const method = (name: string, isStream: boolean) => ({
  path: `/test.Echo/${name}`,
  requestStream: isStream,
  responseStream: isStream,
  ...bytes,
})
const service = { unary: method('Unary', false), stream: method('Stream', true), fail: method('Fail', false) }

async function startGrpc(t: TestContext, serverCredentials = ServerCredentials.createInsecure()) {
  const seen: Metadata[] = []
  const unary: handleUnaryCall<Buffer, Buffer> = ({ metadata, request }, reply) => {
    seen.push(metadata)
    const trailer = new Metadata()
    trailer.set('x-trailer', 'after the message')
    reply(null, request, trailer)
  }
  const stream: handleBidiStreamingCall<Buffer, Buffer> = (call) => {
    call.on('data', (message: Buffer) => call.write(message))
    call.on('end', () => call.end())
  }
  const fail: handleUnaryCall<Buffer, Buffer> = (_call, reply) =>
    reply({ code: status.NOT_FOUND, details: 'no such echo' })
  const server = new Server()
  server.addService(service, { unary, stream, fail })
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', serverCredentials, (error, bound) => (error ? reject(error) : resolve(bound))),
  )
  t.after(() => server.forceShutdown())
  return { port, seen }
}

function openClient(t: TestContext, { httpsPort }: Edge, pem: Buffer): Client {
  const client = new Client(`127.0.0.1:${httpsPort}`, credentials.createSsl(pem), {
    'grpc.ssl_target_name_override': 'app.example.com',
    'grpc.default_authority': 'app.example.com',
  })
  t.after(() => client.close())
  return client
}

type Outcome = { message?: Buffer; error?: ServiceError; trailer?: string }
const call = (client: Client, { path }: { path: string }, message: Buffer) =>
  new Promise<Outcome>((resolve) => {
    const outcome: Outcome = {}
    const request = client.makeUnaryRequest<Buffer, Buffer>(path, same, same, message, (error, reply) => {
      if (error) outcome.error = error
      if (reply) outcome.message = reply
    })
    request.on('status', ({ metadata }) => {
      outcome.trailer = String(metadata.get('x-trailer')[0] ?? '')
      setImmediate(() => resolve(outcome))
    })
  })

async function checkCalls(client: Client) {
  const large = Buffer.alloc(1_000_000, 'x')
  for (const message of [Buffer.from('hello'), large]) {
    const { message: echoed, error, trailer } = await call(client, service.unary, message)
    assert.equal(error, undefined)
    assert.ok(echoed?.equals(message))
    assert.equal(trailer, 'after the message')
  }
  const { error } = await call(client, service.fail, Buffer.from('x'))
  assert.deepEqual([error?.code, error?.details], [status.NOT_FOUND, 'no such echo'])

  // In turn: each message is answered before the next is sent, so nothing may wait for the end of the request.
  const stream = client.makeBidiStreamRequest<Buffer, Buffer>(service.stream.path, same, same)
  const received: string[] = []
  await new Promise<void>((resolve, reject) => {
    stream.on('error', reject)
    stream.on('end', resolve)
    stream.on('data', (message: Buffer) => {
      received.push(String(message))
      if (received.length < 100) stream.write(Buffer.from(`message ${received.length}`))
      else stream.end()
    })
    stream.write(Buffer.from('message 0'))
  })
  assert.deepEqual(
    received,
    Array.from({ length: 100 }, (_, index) => `message ${index}`),
  )
}

async function putGrpcRoute(
  edge: Edge,
  https: string,
  port: number,
  options: { tls?: boolean; policies?: string[]; match?: string } = {},
) {
  const { tls = false, ...route } = options
  const backend = id('bkdst')
  const host = tls ? 'upstream.test' : '127.0.0.1'
  await putRoute(edge, https, { port }, { ...route, backend })
  await edge.put({ [`backend.${backend}`]: { address: '127.0.0.1', port, tls, host, protocol: 'http2' } })
}

test('gRPC: unary calls and streams pass with their trailers, and refused addresses get PERMISSION_DENIED', async (t) => {
  const edge = await startEdge(t, { certificates })
  const pem = await readFile(join(edge.settings.certificateFolder, 'app.example.com.pem'))
  const upstream = await startGrpc(t)
  const https = await putHttpsEdge(edge)
  const denyAll = await edge.policy('deny 0.0.0.0/0')
  await putGrpcRoute(edge, https, upstream.port)
  await putGrpcRoute(edge, https, upstream.port, { match: '/test.Shut', policies: [denyAll] })
  const client = openClient(t, edge, pem)
  await checkCalls(client)
  const [metadata] = upstream.seen
  assert.deepEqual(metadata?.get('x-forwarded-for'), ['127.0.0.1'])
  const count = upstream.seen.length
  assert.equal(
    (await call(client, { path: '/test.Shut/Unary' }, Buffer.from('x'))).error?.code,
    status.PERMISSION_DENIED,
  )
  assert.equal(upstream.seen.length, count)
})

test('gRPC over TLS to the upstream, whose certificate is verified', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-grpc-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const file = await selfSigned({ certificateFolder: folder }, 'upstream.test')
  const both = await readFile(file)
  const key = execFileSync('openssl', ['pkey', '-in', file])
  const edge = await startEdge(t, { certificates, caFile: file })
  const pem = await readFile(join(edge.settings.certificateFolder, 'app.example.com.pem'))
  const upstream = await startGrpc(t, ServerCredentials.createSsl(null, [{ cert_chain: both, private_key: key }]))
  await putGrpcRoute(edge, await putHttpsEdge(edge), upstream.port, { tls: true })
  await checkCalls(openClient(t, edge, pem))
})

test('HTTP/1 clients reach an HTTP/2 upstream too; TE keeps its trailers; a POST is never sent twice', async (t) => {
  const edge = await startEdge(t, { certificates })
  const seen: string[] = []
  const server = createHttp2Server((request, response) => {
    seen.push(`${request.method} ${request.url} ${request.headers.te}`)
    if (request.url === '/closes') request.stream.session?.destroy()
    else response.writeHead(200, { 'content-length': 2 }).end('hi')
  })
  const http1 = createHttp1Server((_request, response) => response.end('1.1'))
  for (const each of [server, http1]) {
    each.listen(0, '127.0.0.1')
    await once(each, 'listening')
    t.after(() => each.close())
  }
  const portOf = (of: { address: () => unknown }) => (of.address() as { port: number }).port
  const https = await putHttpsEdge(edge)
  await putGrpcRoute(edge, https, portOf(server))
  await putGrpcRoute(edge, https, portOf(http1), { match: '/old' })
  const headers = ['TE: gzip, trailers', 'Content-Length: 0']
  assert.equal((await get(edge)).body, 'hi')
  assert.equal((await get(edge, { method: 'POST', headers })).body, 'hi')
  assert.equal((await get(edge, { method: 'POST', path: '/closes', headers })).status, 502)
  assert.deepEqual(seen, ['GET / undefined', 'POST / trailers', 'POST /closes trailers'])
  assert.equal((await get(edge, { method: 'POST', path: '/old', headers })).status, 502, 'it speaks no HTTP/2')
})
