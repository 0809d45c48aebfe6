// WebSockets through a real HAProxy, with a client and a server that are not ours.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import { WebSocket } from 'ws'
import { holdsFor, poll } from '../harness/poll.ts'
import { exchange, get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { type Edge, startEdge } from './proxy_harness.ts'
import { extendedConnect, openHttp2, startEcho } from './websocket_harness.ts'

const certificates = ['app.example.com']

function openSocket(t: TestContext, { httpsPort }: Edge, path: string, from?: string): WebSocket {
  const options = {
    rejectUnauthorized: false,
    servername: 'app.example.com',
    headers: { Host: 'app.example.com', 'X-Forwarded-For': '192.0.2.1' },
    ...(from && { localAddress: from }),
  }
  const socket = new WebSocket(`wss://127.0.0.1:${httpsPort}${path}`, options)
  socket.on('error', () => {})
  t.after(() => socket.terminate())
  return socket
}

/** 101, or the status and the code of the refusal. */
const outcome = (socket: WebSocket): Promise<string> =>
  new Promise((resolve) => {
    socket.on('open', () => resolve('101'))
    socket.on('close', () => resolve('closed'))
    socket.on('unexpected-response', async (_request, response) => {
      let body = ''
      for await (const text of response.setEncoding('utf8')) body += text
      resolve(`${response.statusCode} ${body.startsWith('{') ? JSON.parse(body).error_code : body}`)
    })
  })

test('a WebSocket reaches the upstream, and carries text, binary and large messages both ways', async (t) => {
  const edge = await startEdge(t, { certificates })
  const echo = await startEcho(t)
  const https = await putHttpsEdge(edge)
  await putRoute(edge, https, echo)
  await putRoute(edge, https, echo, { match: '/headers', headers: { add: [['x-more', '1']], remove: ['x-less'] } })
  for (const path of ['/', '/headers/x?y']) {
    const socket = openSocket(t, edge, path)
    assert.equal(await outcome(socket), '101')
    for (const message of [Buffer.from('hello'), Buffer.alloc(3_000_000, 'x')]) {
      socket.send(message)
      const [received] = await once(socket, 'message')
      assert.ok(message.equals(received as Buffer))
    }
    const handshake = echo.handshakes.at(-1) ?? {}
    assert.equal(handshake['x-forwarded-for'], '127.0.0.1', 'an upgrade is forwarded like any other request')
    assert.equal(handshake['x-more'], path === '/' ? undefined : '1')
    socket.close(4_001, 'done')
    assert.equal((await once(socket, 'close'))[0], 4_001)
  }
})

test('a WebSocket from a refused address gets 403, and one on a route without them 400; neither reaches the upstream', async (t) => {
  const edge = await startEdge(t, { certificates })
  const echo = await startEcho(t)
  const https = await putHttpsEdge(edge)
  const office = await edge.policy('allow 127.0.0.1')
  await putRoute(edge, https, echo, { match: '/shut', policies: [office] })
  await putRoute(edge, https, echo, { match: '/off', websocket: false })
  assert.equal(await outcome(openSocket(t, edge, '/shut', '127.0.0.9')), '403 ERR_IP_REFUSED')
  assert.equal(await outcome(openSocket(t, edge, '/off')), '400 ERR_NO_WEBSOCKET')
  assert.equal(await outcome(openSocket(t, edge, '/nowhere')), '404 ERR_NO_ROUTE')
  assert.equal(echo.handshakes.length, 0)
  assert.equal(await outcome(openSocket(t, edge, '/shut', '127.0.0.1')), '101')
})

test('other upgrades reach the upstream as plain requests, and no upstream can switch protocols unasked', async (t) => {
  const edge = await startEdge(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const switching = createServer((socket) => {
    socket.on('error', () => {})
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\nraw')
  })
  switching.listen(0, '127.0.0.1')
  await once(switching, 'listening')
  t.after(() => switching.close())
  const https = await putHttpsEdge(edge)
  await putRoute(edge, https, upstream)
  await putRoute(edge, https, { port: (switching.address() as { port: number }).port }, { match: '/switch' })
  const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
  const upgrades = [
    ['Connection: upgrade', 'Upgrade: h2c'],
    ['Connection: upgrade', 'Upgrade: websocket, other'],
    ['Connection: upgrade', 'Upgrade: websocket', 'Upgrade: other'],
    ['Connection: close', 'Upgrade: websocket'],
  ]
  for (const headers of upgrades) {
    // HAProxy's parser refuses a handshake without a key.
    assert.equal((await get(edge, { headers: [...headers, key] })).status, 200, String(headers))
    assert.deepEqual(
      upstream.lastHeaders().filter(([name, value]) => name === 'upgrade' || /upgrade/i.test(value)),
      [],
      String(headers),
    )
  }
  const post = [
    'POST / HTTP/1.1',
    'Host: app.example.com',
    'Content-Length: 0',
    'Connection: upgrade',
    'Upgrade: websocket',
    key,
  ]
  assert.equal((await exchange(edge, `${post.join('\r\n')}\r\n\r\n`)).status, 200)
  for (const headers of upgrades)
    assert.equal((await get(edge, { path: '/switch', headers: [...headers, key] })).status, 502, String(headers))
})

test('RFC 8441: a WebSocket over HTTP/2 is accepted and refused like one over HTTP/1', async (t) => {
  const edge = await startEdge(t, { certificates })
  const echo = await startEcho(t)
  const https = await putHttpsEdge(edge)
  const denyAll = await edge.policy('deny 0.0.0.0/0')
  await putRoute(edge, https, echo)
  await putRoute(edge, https, echo, { match: '/shut', policies: [denyAll] })
  await putRoute(edge, https, echo, { match: '/off', websocket: false })
  const session = await openHttp2(t, edge)
  assert.equal(session.remoteSettings?.enableConnectProtocol, true)
  assert.equal((await extendedConnect(session, '/shut')).status, 403)
  assert.equal((await extendedConnect(session, '/off')).status, 400)
  assert.equal((await extendedConnect(session, '/', 'connect-udp')).status, 405)
  assert.equal(echo.handshakes.length, 0)

  const { stream, status } = await extendedConnect(session, '/')
  assert.equal(status, 200)
  // A masked text frame 'hi', with a mask of zeros.
  stream.write(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]))
  const [frame] = await once(stream, 'data')
  assert.deepEqual([...(frame as Buffer)], [0x81, 0x02, 0x68, 0x69])
  stream.close()
  await poll(() => echo.server.clients.size === 0)
})

test('an open WebSocket survives a policy change, and the next one is decided by the new policy', async (t) => {
  const edge = await startEdge(t, { certificates })
  const echo = await startEcho(t)
  const https = await putHttpsEdge(edge)
  const policy = await edge.policy('allow 127.0.0.1')
  await putRoute(edge, https, echo, { policies: [policy] })
  const socket = openSocket(t, edge, '/')
  assert.equal(await outcome(socket), '101')
  await edge.put({ [`policy.${policy}`]: await edge.writePolicyFile('deny 127.0.0.1') })
  assert.equal(await outcome(openSocket(t, edge, '/')), '403 ERR_IP_REFUSED')
  await holdsFor(200, () => socket.readyState === WebSocket.OPEN)
})

test('closing what belongs to a route closes its WebSockets over HTTP/1.1 and HTTP/2, and no others', async (t) => {
  const edge = await startEdge(t, { certificates })
  const echo = await startEcho(t)
  const https = await putHttpsEdge(edge)
  const closed = await putRoute(edge, https, echo, { match: '/closed' })
  await putRoute(edge, https, echo, { match: '/kept' })
  const [ends, stays] = [openSocket(t, edge, '/closed'), openSocket(t, edge, '/kept')]
  assert.deepEqual(await Promise.all([ends, stays].map(outcome)), ['101', '101'])
  const session = await openHttp2(t, edge)
  const endsToo = (await extendedConnect(session, '/closed')).stream
  const staysToo = (await extendedConnect(session, '/kept')).stream
  const gone = Promise.all([once(ends, 'close'), once(endsToo, 'close')])
  assert.equal(await edge.proxy.closeSessions([closed]), 2)
  await gone
  await holdsFor(200, () => stays.readyState === WebSocket.OPEN && !staysToo.closed && !staysToo.destroyed)
  assert.equal(await edge.proxy.closeSessions([closed]), 0)
})
