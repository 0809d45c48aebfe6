import assert from 'node:assert/strict'
import { connect as connectHttp2 } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { parseCidr } from '../../src/kernel/ip/cidr.ts'
import { poll } from '../harness/poll.ts'
import { get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { type Edge, id, startEdge, startUpstream } from './proxy_harness.ts'

const [balancer, stranger] = ['127.0.0.2', '127.0.0.3']
const [friend, foe] = ['203.0.113.5', '203.0.113.6']

const networks = (...texts: string[]) =>
  texts.map((text) => {
    const { cidr, fault } = parseCidr(text)
    if (!cidr) throw new Error(fault)
    return cidr
  })

/** PROXY protocol, version 2, over TCP and IPv4. */
function proxyHeader(source: string, destination = '192.0.2.1', port = 9): Buffer {
  const bytes = (address: string) => Buffer.from(address.split('.').map(Number))
  const ports = Buffer.alloc(4)
  ports.writeUInt16BE(4_711, 0)
  ports.writeUInt16BE(port, 2)
  const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
  return Buffer.concat([signature, Buffer.from([0x21, 0x11, 0, 12]), bytes(source), bytes(destination), ports])
}

/** What comes back, until `enough` or the end of the connection. */
function answered(socket: Socket, enough: (text: string) => boolean): Promise<string> {
  let text = ''
  return new Promise((resolve) => {
    const done = () => {
      socket.destroy()
      resolve(text)
    }
    socket.on('data', (data) => {
      text += data.toString('latin1')
      if (enough(text)) done()
    })
    socket.on('error', done)
    socket.on('close', done)
  })
}

async function tcpAnswer(edge: Edge, from: string, first: Buffer): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port: edge.tcpPort, localAddress: from })
  socket.write(first)
  return answered(socket, () => true)
}

async function httpsStatus(edge: Edge, from: string, first: Buffer): Promise<string> {
  const plain = connect({ host: '127.0.0.1', port: edge.httpsPort, localAddress: from })
  plain.on('error', () => {})
  if (first.length > 0) plain.write(first)
  const socket = connectTls({ socket: plain, servername: 'app.example.com', rejectUnauthorized: false })
  socket.write('GET / HTTP/1.1\r\nHost: app.example.com\r\n\r\n')
  return (await answered(socket, (text) => text.includes('\r\n\r\n'))).split(' ')[1] ?? 'closed'
}

test('behind a load balancer that speaks the PROXY protocol, the client of a TCP connection is the one that it names', async (t) => {
  const edge = await startEdge(t, { more: { proxyProtocolFrom: networks(balancer) } })
  const upstream = await startUpstream(t, 'hello')
  const [tcp, backend] = [id('edgtcp'), id('bkdst')]
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
    [`tcp.${tcp}`]: {
      account: id('ac'),
      hostports: [`tcp.example.com:${edge.tcpPort}`],
      backend,
      policies: [await edge.policy(`allow ${friend}`)],
    },
  })
  assert.equal(await tcpAnswer(edge, balancer, proxyHeader(friend)), 'hello')
  assert.equal(await tcpAnswer(edge, balancer, proxyHeader(friend, '198.51.100.1', 1)), 'hello', 'another destination')
  assert.equal(await tcpAnswer(edge, balancer, proxyHeader(foe)), '')
  await poll(() => edge.events.some(({ source, target }) => source === foe && target === tcp))
  const accepts = upstream.accepts
  for (const garbage of [
    'GET / HTTP/1.1\r\n\r\n',
    'PROXY TCP4 nonsense\r\n',
    proxyHeader(friend).toString('latin1', 0, 8),
  ])
    assert.equal(await tcpAnswer(edge, balancer, Buffer.from(`${garbage}\r\n`.repeat(40), 'latin1')), '', garbage)
  assert.equal(await tcpAnswer(edge, stranger, proxyHeader(friend)), '', 'a header from anywhere else says nothing')
  await poll(() => edge.events.some(({ source }) => source === stranger))
  assert.equal(upstream.accepts, accepts)
})

test('a load balancer that names no client by the PROXY protocol is refused, although a policy allows its address', async (t) => {
  const edge = await startEdge(t, {
    certificates: ['app.example.com'],
    more: { proxyProtocolFrom: networks(balancer) },
  })
  const [upstream, http] = [await startUpstream(t, 'hello'), await startHttpUpstream(t)]
  const policies = [await edge.policy('allow 127.0.0.0/8', `allow ${friend}`)]
  const backend = id('bkdst')
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
    [`tcp.${id('edgtcp')}`]: { account: id('ac'), hostports: [`tcp.example.com:${edge.tcpPort}`], backend, policies },
  })
  await putRoute(edge, await putHttpsEdge(edge), http, { policies })
  assert.equal(await tcpAnswer(edge, balancer, proxyHeader(friend)), 'hello')
  assert.equal(await httpsStatus(edge, balancer, proxyHeader(friend)), '200')
  const local = Buffer.concat([proxyHeader(friend).subarray(0, 12), Buffer.from([0x20, 0, 0, 0])])
  for (const header of [local, Buffer.from('PROXY UNKNOWN\r\n')]) {
    assert.equal(await tcpAnswer(edge, balancer, header), '')
    assert.equal(await httpsStatus(edge, balancer, header), '400')
  }
  assert.deepEqual([upstream.accepts, http.heads.length], [1, 1])
})

test('the PROXY protocol names the client of HTTPS requests, and their limits are those of the client', async (t) => {
  const limits = { perSource: 2, perEdge: 1_000, perAccount: 1_000, unlimitedSources: [] }
  const edge = await startEdge(t, {
    certificates: ['app.example.com'],
    limits,
    more: { proxyProtocolFrom: networks(balancer) },
  })
  const upstream = await startHttpUpstream(t)
  await putRoute(edge, await putHttpsEdge(edge), upstream, { policies: [await edge.policy(`allow ${friend}`)] })
  assert.equal(await httpsStatus(edge, balancer, proxyHeader(friend)), '200')
  assert.deepEqual(upstream.lastHeaders().find(([name]) => name.toLowerCase() === 'x-forwarded-for')?.[1], friend)
  assert.equal(await httpsStatus(edge, balancer, proxyHeader(foe)), '403')
  assert.equal(await httpsStatus(edge, balancer, Buffer.alloc(0)), 'closed')
  assert.equal((await get(edge, { from: stranger })).status, 403)
  assert.equal(await httpsStatus(edge, stranger, proxyHeader(friend)), 'closed')

  const held = [1, 2].map(() => {
    const plain = connect({ host: '127.0.0.1', port: edge.httpsPort, localAddress: balancer })
    plain.write(proxyHeader(friend))
    return connectTls({ socket: plain, servername: 'app.example.com', rejectUnauthorized: false })
  })
  t.after(() => {
    for (const socket of held) socket.destroy()
  })
  await Promise.all(held.map((socket) => new Promise((resolve) => socket.once('secureConnect', resolve))))
  assert.equal(await httpsStatus(edge, balancer, proxyHeader(friend)), 'closed', 'over the limit of its address')
  assert.equal(await httpsStatus(edge, balancer, proxyHeader(foe)), '403', 'another client is not')
})

for (const isCarefulOnly of [false, true])
  test(`X-Forwarded-For counts from trusted proxies only, and from the right (careful: ${isCarefulOnly})`, async (t) => {
    const edge = await startEdge(t, {
      certificates: ['app.example.com'],
      isCarefulOnly,
      more: { trustedProxies: networks(balancer, '10.9.0.0/16') },
    })
    const upstream = await startHttpUpstream(t)
    await putRoute(edge, await putHttpsEdge(edge), upstream, { policies: [await edge.policy(`allow ${friend}`)] })
    const status = async (from: string, ...headers: string[]) =>
      (await get(edge, { from, headers: headers.map((value) => `X-Forwarded-For: ${value}`) })).status
    assert.equal(await status(balancer, friend), 200)
    assert.deepEqual(
      upstream.lastHeaders().filter(([name]) => name.toLowerCase() === 'x-forwarded-for'),
      [['x-forwarded-for', friend]],
    )
    assert.equal(await status(balancer, `${foe}, ${friend}, 10.9.1.1, 10.9.2.2`), 200)
    assert.equal(await status(balancer, foe, friend), 200)
    assert.equal(await status(balancer, `${friend}, ${foe}`), 403, 'what a client wrote itself is left of what counts')
    assert.equal(await status(balancer, friend, foe), 403)
    assert.equal(await status(stranger, friend), 403)
    assert.equal(await status(balancer, '10.9.1.1'), 403, 'a proxy is a client like any other')
    await poll(() => edge.events.some(({ source }) => source === foe))
    const requests = upstream.heads.length
    const refused = [[], [''], ['unknown'], [`${friend}, unknown`], [`${friend}x`], [Array(7).fill('10.9.1.1').join()]]
    for (const headers of refused) assert.equal(await status(balancer, ...headers), 400, headers.join())
    const { body, head } = await get(edge, { from: balancer })
    assert.equal(JSON.parse(body).error_code, 'ERR_BAD_FORWARDED_FOR')
    assert.match(head, /^x-request-id: /im)
    assert.equal(upstream.heads.length, requests)
  })

test('requests of different clients on one connection of a trusted proxy are decided one by one', async (t) => {
  const edge = await startEdge(t, { certificates: ['app.example.com'], more: { trustedProxies: networks(balancer) } })
  const upstream = await startHttpUpstream(t)
  await putRoute(edge, await putHttpsEdge(edge), upstream, { policies: [await edge.policy(`allow ${friend}`)] })
  const session = connectHttp2(`https://127.0.0.1:${edge.httpsPort}`, {
    servername: 'app.example.com',
    rejectUnauthorized: false,
    ...{ localAddress: balancer },
  })
  t.after(() => session.destroy())
  const status = (client: string) =>
    new Promise<unknown>((resolve) => {
      const request = session.request({ ':authority': 'app.example.com', 'x-forwarded-for': client })
      request.on('response', (headers) => resolve(headers[':status']))
      request.end()
    })
  const clients = [friend, foe, friend, foe, foe, friend]
  assert.deepEqual(await Promise.all(clients.map(status)), [200, 403, 200, 403, 403, 200])
})

test('a TCP upstream that asked for it learns the client from the PROXY protocol, and no other gets a header', async (t) => {
  const edge = await startEdge(t, { more: { proxyProtocolFrom: networks(balancer) } })
  const upstream = await startUpstream(t, 'hello')
  const [plain, proxied] = [id('bkdst'), id('bkdst')]
  const backend = { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' }
  const tcp = (port: number, to: string) => ({
    [`tcp.${id('edgtcp')}`]: {
      account: id('ac'),
      hostports: [`tcp.example.com:${port}`],
      backend: to,
      policies: null,
    },
  })
  await edge.put({
    [`backend.${plain}`]: backend,
    [`backend.${proxied}`]: { ...backend, send_proxy_protocol: true },
    ...tcp(edge.tcpPort, proxied),
    ...tcp(edge.tcpPort + 1, plain),
  })
  const received = async (port: number, from: string, first: Buffer, text: string) => {
    upstream.received = ''
    const socket = connect({ host: '127.0.0.1', port, localAddress: from })
    socket.on('error', () => {})
    socket.write(Buffer.concat([first, Buffer.from(text)]))
    await poll(() => upstream.received.endsWith(text))
    socket.destroy()
    return Buffer.from(upstream.received, 'latin1')
  }
  const sourceIn = (bytes: Buffer) => [...bytes.subarray(16, 20)].join('.')
  const signature = proxyHeader(friend).subarray(0, 14)
  const direct = await received(edge.tcpPort, stranger, Buffer.alloc(0), 'direct')
  assert.deepEqual([direct.subarray(0, 14), sourceIn(direct)], [signature, stranger])
  const passedOn = await received(edge.tcpPort, balancer, proxyHeader(friend), 'passed on')
  assert.deepEqual([passedOn.subarray(0, 14), sourceIn(passedOn)], [signature, friend])
  const forged = await received(edge.tcpPort, stranger, proxyHeader(friend), 'forged')
  assert.equal(sourceIn(forged), stranger, 'what a client writes comes after the header')
  assert.equal(String(await received(edge.tcpPort + 1, stranger, Buffer.alloc(0), 'without')), 'without')
})

test('connections through a load balancer are closed with the others of their edge', async (t) => {
  const edge = await startEdge(t, { more: { proxyProtocolFrom: networks(balancer) } })
  const upstream = await startUpstream(t, 'hello')
  const [tcp, backend] = [id('edgtcp'), id('bkdst')]
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
    [`tcp.${tcp}`]: { account: id('ac'), hostports: [`tcp.example.com:${edge.tcpPort}`], backend, policies: null },
  })
  const socket = connect({ host: '127.0.0.1', port: edge.tcpPort, localAddress: balancer })
  t.after(() => socket.destroy())
  let isClosed = false
  socket.on('error', () => {})
  socket.on('close', () => {
    isClosed = true
  })
  socket.write(proxyHeader(friend, '198.51.100.1', 1))
  await new Promise((resolve) => socket.once('data', resolve))
  assert.equal(await edge.proxy.closeSessions([tcp]), 1)
  await poll(() => isClosed)
})
