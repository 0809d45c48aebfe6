import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { policyFolder } from '../../src/agent/haproxy/settings.ts'
import type { Verdict } from '../../src/agent/requests/hits.ts'
import { poll } from '../harness/poll.ts'
import {
  assertEvents,
  type Edge,
  firstBytes,
  id,
  openConnection,
  startEdge,
  startUpstream,
  type Upstream,
} from './proxy_harness.ts'

const account = id('ac')
type Changes = { policies?: string[] | null; hostports?: string[]; backend?: string | null; account?: string }

async function putEdge(edge: Edge, upstream: Upstream, changes: Changes = {}) {
  const [tcp, backend] = [id('edgtcp'), id('bkdst')]
  const record = {
    account,
    hostports: [`127.0.0.1:${edge.tcpPort}`],
    backend,
    policies: null,
  }
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
    [`tcp.${tcp}`]: { ...record, ...changes },
  })
  return { tcp, backend, key: `tcp.${tcp}`, record: { ...record, ...changes } }
}

test('a connection reaches the upstream of the edge, and closed ports reach none', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'hello')
  const port = edge.tcpPort
  assert.equal(await firstBytes({ port }), '', 'no edge yet')
  const { key, record, backend } = await putEdge(edge, upstream)
  assert.equal(await firstBytes({ port }), 'hello')
  assert.equal(await firstBytes({ port: port + 1 }), '')
  assert.equal(await firstBytes({ port, to: '127.0.0.9' }), '', 'another destination address')

  await edge.put({ [key]: { ...record, backend: null } })
  assert.equal(await firstBytes({ port }), '', 'no backend')
  await edge.put({ [key]: record })
  assert.equal(await firstBytes({ port }), 'hello')
  await edge.put({ [`backend.${backend}`]: { address: null, port: 1, tls: false, host: 'gone.test' } })
  assert.equal(await firstBytes({ port }), '', 'not resolvable')
  await edge.put({ [key]: null })
  assert.equal(await firstBytes({ port }), '', 'deleted')
  assert.equal(upstream.accepts, 2)
  assert.deepEqual(edge.troubles, [])
})

test('a host name matches every address, and an address takes precedence', async (t) => {
  const edge = await startEdge(t)
  const [named, addressed] = [await startUpstream(t, 'named'), await startUpstream(t, 'addressed')]
  const port = edge.tcpPort
  await putEdge(edge, named, { hostports: [`db.example.com:${port}`] })
  for (const to of ['127.0.0.1', '127.0.0.9', '::1']) assert.equal(await firstBytes({ port, to }), 'named')
  const { key } = await putEdge(edge, addressed, { hostports: [`127.0.0.9:${port}`, `[::1]:${port}`] })
  assert.equal(await firstBytes({ port }), 'named')
  for (const to of ['127.0.0.9', '::1']) assert.equal(await firstBytes({ port, to }), 'addressed')
  await edge.put({ [key]: null })
  assert.equal(await firstBytes({ port, to: '::1' }), 'named')
})

test('the first of two edges on one port keeps it until it is deleted', async (t) => {
  const edge = await startEdge(t)
  const [first, second] = [await startUpstream(t, 'first'), await startUpstream(t, 'second')]
  const port = edge.tcpPort
  const { key } = await putEdge(edge, first, { hostports: [`a.example.com:${port}`] })
  await putEdge(edge, second, { hostports: [`b.example.com:${port}`] })
  assert.equal(await firstBytes({ port }), 'first')
  await edge.put({ [key]: null })
  assert.equal(await firstBytes({ port }), 'second')
})

test('policies decide by the address of the connection, before any upstream is dialed', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'hello')
  const port = edge.tcpPort
  const visit = async (from: string, to = '127.0.0.1') => (await firstBytes({ port, from, to })) === 'hello'
  const office = await edge.policy('allow 127.0.0.0/24', 'deny 127.0.0.66/31', 'allow ::/64')
  const partners = await edge.policy('allow 127.0.1.0/24', 'deny 127.0.0.5')
  const hostports = [`127.0.0.1:${port}`, `[::1]:${port}`]
  const { key, record } = await putEdge(edge, upstream, { policies: [office], hostports })

  const seen: Record<string, boolean> = {}
  for (const from of ['127.0.0.0', '127.0.0.65', '127.0.0.66', '127.0.0.67', '127.0.0.68', '127.0.0.255', '127.0.1.0'])
    if (from !== '127.0.0.0') seen[from] = await visit(from)
  assert.deepEqual(seen, {
    '127.0.0.65': true,
    '127.0.0.66': false,
    '127.0.0.67': false,
    '127.0.0.68': true,
    '127.0.0.255': true,
    '127.0.1.0': false,
  })
  assert.equal(await visit('::1', '::1'), true)
  assert.equal(upstream.accepts, 4, 'what was refused never reached the upstream')

  await edge.put({ [key]: { ...record, policies: [office, partners] } })
  assert.deepEqual([await visit('127.0.1.9'), await visit('127.0.0.5'), await visit('127.0.0.6')], [true, false, true])
  await edge.put({ [key]: { ...record, policies: [] } })
  assert.equal(await visit('127.0.0.1'), false, 'an empty list allows no address')
  await edge.put({ [key]: { ...record, policies: null } })
  assert.equal(await visit('127.0.0.66'), true)

  const refused = ['127.0.0.66', '127.0.0.67', '127.0.1.0', '127.0.0.5', '127.0.0.1']
  await assertEvents(
    edge,
    refused.map((source) => ({ outcome: 'refused', restriction: null, target: key.slice(4), source })),
  )
})

test('IPv6 ranges are compared over all 128 bits', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'hello')
  const port = edge.tcpPort
  const visit = async () => (await firstBytes({ port, to: '::1', from: '::1' })) === 'hello'
  const { key, record } = await putEdge(edge, upstream, { hostports: [`[::1]:${port}`] })
  const expectations: [string[], boolean][] = [
    [['allow ::1/128'], true],
    [['allow ::/128'], false],
    [['allow ::2/127'], false],
    [['allow 8000::/1'], false],
    [['allow ::/1'], true],
    [['allow ::/0', 'deny ::1'], false],
    [['allow 0.0.0.0/0'], false],
    [['allow ::/96', 'deny ::2/127', 'deny ffff::/16'], true],
  ]
  for (const [rules, allowed] of expectations) {
    await edge.put({ [key]: { ...record, policies: [await edge.policy(...rules)] } })
    assert.equal(await visit(), allowed, rules.join())
  }
})

test('a replaced policy takes effect on all edges at once, and a missing one denies', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'hello')
  const port = edge.tcpPort
  const policy = await edge.policy('allow 127.0.0.1')
  const ports = [port, port + 1, port + 2]
  for (const each of ports) await putEdge(edge, upstream, { policies: [policy], hostports: [`127.0.0.1:${each}`] })
  const answers = () => Promise.all(ports.map(async (each) => (await firstBytes({ port: each })) === 'hello'))
  assert.deepEqual(await answers(), [true, true, true])

  await edge.put({ [`policy.${policy}`]: await edge.writePolicyFile('deny 127.0.0.1') })
  assert.deepEqual(await answers(), [false, false, false])
  const hash = await edge.writePolicyFile('allow 127.0.0.0/30')
  await rm(join(policyFolder(edge.settings), hash))
  await edge.put({ [`policy.${policy}`]: hash })
  assert.deepEqual(await answers(), [false, false, false], 'no file')
  await edge.writePolicyFile('allow 127.0.0.0/30')
  assert.deepEqual(await answers(), [true, true, true], 'the file came')
  await edge.put({ [`policy.${policy}`]: null })
  assert.deepEqual(await answers(), [false, false, false], 'no entry')
})

test('every enforced restriction of the account must allow; the others warn', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'hello')
  const port = edge.tcpPort
  const visit = async (from: string) => (await firstBytes({ port, from })) === 'hello'
  const { tcp } = await putEdge(edge, upstream, { policies: [await edge.policy('allow 127.0.0.0/24')] })
  const [wide, narrow] = [await edge.policy('allow 127.0.0.0/28'), await edge.policy('allow 127.0.0.0/30')]
  const [strict, trial] = [id('ipx'), id('ipx')]
  const sets = (enforced: boolean) => ({
    sets: [
      { id: strict, enforced: true, policies: [wide] },
      { id: trial, enforced, policies: [narrow] },
    ],
  })
  await edge.put({ [`restrictions.${account}`]: sets(false), [`restrictions.${id('ac')}`]: { sets: [] } })
  assert.deepEqual([await visit('127.0.0.2'), await visit('127.0.0.7'), await visit('127.0.0.20')], [true, true, false])
  const event = (outcome: Verdict['outcome'], restriction: string | null, source: string) => ({
    outcome,
    restriction,
    target: tcp,
    source,
  })
  await assertEvents(edge, [
    event('warned', trial, '127.0.0.7'),
    event('warned', trial, '127.0.0.20'),
    event('refused', strict, '127.0.0.20'),
  ])
  await edge.put({ [`restrictions.${account}`]: sets(true) })
  assert.deepEqual([await visit('127.0.0.2'), await visit('127.0.0.7')], [true, false])
  await edge.put({ [`restrictions.${account}`]: { sets: [] } })
  assert.deepEqual([await visit('127.0.0.7'), await visit('127.0.1.1')], [true, false], "the edge's own policies stay")
})

test('row 3: an account whose restrictions are unknown to the node is closed, with or without its own policies', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'upstream')
  await putEdge(edge, upstream, { policies: [await edge.policy('allow 127.0.0.0/8')] })
  await putEdge(edge, upstream, { hostports: [`127.0.0.1:${edge.tcpPort + 1}`] })
  const visits = async () => [await firstBytes({ port: edge.tcpPort }), await firstBytes({ port: edge.tcpPort + 1 })]
  assert.deepEqual(await visits(), ['upstream', 'upstream'])
  await edge.put({ [`restrictions.${account}`]: null })
  assert.deepEqual(await visits(), ['', ''])
})

test('open connections are kept unless the operator wants them closed', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'hello')
  const kept = await putEdge(edge, upstream)
  const closed = await putEdge(edge, upstream, { hostports: [`db.example.com:${edge.tcpPort + 1}`] })
  const sockets = [edge.tcpPort, edge.tcpPort + 1].map((port) => openConnection({ port }))
  await poll(() => upstream.sockets.size === 2)
  const states = () => sockets.map((socket) => socket.readyState)
  for (const socket of sockets) socket.resume()
  await edge.put({ [kept.key]: null, [closed.key]: null })
  assert.deepEqual(states(), ['open', 'open'])
  assert.equal(await edge.proxy.closeSessions([closed.tcp]), 1)
  await poll(() => upstream.sockets.size === 1)
  await poll(() => states()[1] !== 'open')
  assert.equal(states()[0], 'open')
  for (const socket of sockets) socket.destroy()
})

test('an IPv6 upstream is dialed at its own address, and never at an IPv4 address that is part of it', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'IPv4')
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.end('IPv6')
  })
  await new Promise<void>((resolve) => server.listen(0, '::1', resolve))
  t.after(() => server.close())
  const answerOf = async (address: string, port: number) => {
    const [backend, tcp] = [id('bkdst'), id('edgtcp')]
    const hostports = [`tcp.example.com:${edge.tcpPort}`]
    await edge.put({
      [`backend.${backend}`]: { address, port, tls: false, host: 'upstream.test' },
      [`tcp.${tcp}`]: { account: id('ac'), hostports, backend, policies: null },
    })
    const answer = await firstBytes({ port: edge.tcpPort })
    await edge.put({ [`tcp.${tcp}`]: null })
    return answer
  }
  assert.equal(await answerOf('::1', (server.address() as { port: number }).port), 'IPv6')
  // 127.0.0.1 as a 6to4 address.
  assert.notEqual(await answerOf('2002:7f00:1::1', upstream.port), 'IPv4')
  assert.equal(upstream.accepts, 0)
})
