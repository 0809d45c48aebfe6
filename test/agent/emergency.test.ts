// Orders that reach a node without the control plane, through a real HAProxy.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:https'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { diskFiles, type Files } from '../../src/agent/disk/files.ts'
import { openEmergencies } from '../../src/agent/emergencies.ts'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { mapFile } from '../../src/agent/haproxy/settings.ts'
import { liftOf, newOrder, sealOrder } from '../../src/distribution/emergency.ts'
import { createSigner, newSigningKey, trustedKeys } from '../../src/distribution/signature.ts'
import { parseCidr } from '../../src/kernel/ip/cidr.ts'
import { systemTiming } from '../../src/kernel/system_timing.ts'
import { poll } from '../harness/poll.ts'
import { get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { type Edge, firstBytes, id, onBothPaths, openConnection, startEdge, startUpstream } from './proxy_harness.ts'

const { publicKey, privateKey } = newSigningKey()
const signer = createSigner(publicKey, privateKey)
const [attacker, neighbor] = ['127.0.0.66', '127.0.0.77']
const log = { info: () => {}, warn: () => {}, error: () => {} }
const order = (...refuse: string[]) =>
  newOrder({ id: randomBytes(6).toString('hex'), cells: [], refuse, reason: 'drill', lifeSeconds: 3_600 }, Date.now())

async function startOrders(t: TestContext, edge: Edge, more: { files?: Files; ahead?: () => number } = {}) {
  const { files = diskFiles, ahead = () => 0 } = more
  const orders = await openEmergencies({
    ...{ files, folder: join(edge.settings.folder, 'emergencies'), keys: trustedKeys([publicKey]), cell: 'default' },
    ...{ log, proxy: edge.proxy, onChange: () => {} },
    timing: { ...systemTiming, now: () => Date.now() + ahead() },
  })
  t.after(orders.stop)
  const give = async (given: ReturnType<typeof order>) => {
    const { fault } = await orders.take(sealOrder(given, signer))
    assert.equal(fault, undefined)
  }
  return { ...orders, give }
}

/** A TCP edge and an HTTPS edge that everyone reaches. */
async function putOpenEdges(t: TestContext, edge: Edge) {
  const upstream = await startUpstream(t, 'hello')
  const [tcp, backend, account] = [id('edgtcp'), id('bkdst'), id('ac')]
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
    [`tcp.${tcp}`]: { account, hostports: [`127.0.0.1:${edge.tcpPort}`], backend, policies: null },
  })
  const web = await startHttpUpstream(t)
  await putRoute(edge, await putHttpsEdge(edge), web, { match: '/' })
  const reach = async (from: string) => ({
    tcp: await firstBytes({ from, port: edge.tcpPort }),
    /** 0: the connection was closed. */
    https: (await get(edge, { from })).status,
  })
  return { upstream, reach }
}
const statusOn = (agent: Agent, port: number) =>
  new Promise<number | undefined>((resolve, reject) => {
    const options = {
      agent,
      port,
      host: '127.0.0.1',
      servername: 'app.example.com',
      headers: { Host: 'app.example.com' },
    }
    request(options, (response) => response.resume().on('end', () => resolve(response.statusCode)))
      .on('error', reject)
      .end()
  })
const [open, shut] = [
  { tcp: 'hello', https: 200 },
  { tcp: '', https: 0 },
]

onBothPaths('an order refuses a range everywhere, ends what is open, and goes when it is lifted', async (t, start) => {
  const edge = await start(t, { certificates: ['app.example.com'] })
  const { reach, upstream } = await putOpenEdges(t, edge)
  const orders = await startOrders(t, edge)
  assert.deepEqual(await reach(attacker), open)
  const [theirs, ours] = [attacker, neighbor].map((from) => openConnection({ from, port: edge.tcpPort }).resume())
  await poll(() => upstream.sockets.size === 2)

  const given = order('127.0.0.64/30', '127.0.0.66', '2001:db8::/32')
  await orders.give(given)
  assert.deepEqual(await reach(attacker), shut)
  assert.deepEqual(await reach(neighbor), open)
  await poll(() => theirs?.readyState !== 'open' && upstream.sockets.size === 1)
  assert.equal(ours?.readyState, 'open')
  ours?.destroy()
  const [state] = orders.state()
  assert.deepEqual([state?.id, state?.ranges, state?.reason], [given.id, 3, 'drill'])

  await orders.give(liftOf(given.id, [], Date.now()))
  assert.deepEqual(await reach(attacker), open)
  assert.deepEqual(orders.state(), [])
  await orders.give(given)
  assert.deepEqual(await reach(attacker), open, 'a lifted order that is given again')
  assert.deepEqual(edge.troubles, [])
})

onBothPaths('a client that a proxy names, and one whose connection was open before, get 403', async (t, start) => {
  const proxy = parseCidr('127.0.0.66').cidr
  const edge = await start(t, { certificates: ['app.example.com'], more: { trustedProxies: proxy ? [proxy] : [] } })
  await putOpenEdges(t, edge)
  const orders = await startOrders(t, edge)
  const agent = new Agent({ keepAlive: true, maxSockets: 1, localAddress: neighbor, rejectUnauthorized: false })
  t.after(() => agent.destroy())
  const onSameConnection = () => statusOn(agent, edge.httpsPort)
  assert.equal(await onSameConnection(), 200)
  await orders.give(order('203.0.113.0/24', '127.0.0.66', neighbor))
  assert.equal(await onSameConnection(), 403)
  const via = (client: string) => get(edge, { from: attacker, headers: [`X-Forwarded-For: ${client}`] })
  const refused = await via('203.0.113.9')
  assert.deepEqual([refused.status, JSON.parse(refused.body).error_code], [403, 'ERR_IP_REFUSED'])
  assert.equal((await via('198.51.100.9')).status, 200, 'the proxy itself is in a refused range, and is no client')
  const { request_id } = JSON.parse(refused.body).details
  const told = await poll(() => edge.lines.find(({ request }) => request.id === request_id)?.request)
  assert.deepEqual([told?.outcome, told?.reason, told?.source], ['refused', 'emergency', '203.0.113.9'])
})

test('an order is in force before HAProxy serves again, and no comparison takes it out', async (t) => {
  const edge = await startEdge(t, { certificates: ['app.example.com'], options: { comparisonMs: 100 } })
  const { reach } = await putOpenEdges(t, edge)
  const before = await startOrders(t, edge)
  await before.give(order('127.0.0.66', '127.0.0.64/29'))
  const worker = /^(\d+)\s+worker\s/m.exec(await ask(edge.settings.masterSocket, 'show proc'))?.[1]
  process.kill(Number(worker), 'SIGKILL')
  await poll(async () => (await reach(neighbor).catch(() => shut)).tcp === 'hello')
  assert.deepEqual(await reach(attacker), shut)
  await ask(edge.settings.runtimeSocket, `clear map ${mapFile(edge.settings, 'emergency')}`)
  await poll(async () => (await reach(attacker)).tcp === '')
  before.stop()

  const after = await startOrders(t, edge)
  assert.deepEqual(after.entries(), [{ map: 'emergency', key: '127.0.0.64/29', value: 'refused' }])
})

test('an order ends by the clock of the node, and its file goes', async (t) => {
  let aheadMs = 0
  const edge = await startEdge(t, { certificates: ['app.example.com'] })
  const { reach } = await putOpenEdges(t, edge)
  const orders = await startOrders(t, edge, { ahead: () => aheadMs })
  await orders.give(order('127.0.0.66'))
  assert.deepEqual(await reach(attacker), shut)
  aheadMs = 3_600_000
  await poll(async () => (await reach(attacker)).tcp === 'hello')
  await poll(async () => (await diskFiles.list(join(edge.settings.folder, 'emergencies'))).length === 0)
})

test('a disk that takes nothing does not keep an order from being enforced, and it is kept later', async (t) => {
  let isFull = true
  const files: Files = {
    ...diskFiles,
    open: async (file, how, mode) => {
      if (isFull && file.includes('emergencies')) throw new Error('ENOSPC')
      return diskFiles.open(file, how, mode)
    },
  }
  const edge = await startEdge(t, { certificates: ['app.example.com'] })
  const { reach } = await putOpenEdges(t, edge)
  const orders = await startOrders(t, edge, { files })
  const given = order('127.0.0.66')
  assert.deepEqual(await orders.take(sealOrder(given, signer)), { order: given, kept: false })
  assert.deepEqual(await reach(attacker), shut)
  isFull = false
  await poll(async () => (await diskFiles.list(join(edge.settings.folder, 'emergencies'))).includes(given.id))
})

test('a file that was put there without the key is no order', async (t) => {
  const edge = await startEdge(t, { certificates: ['app.example.com'] })
  const folder = join(edge.settings.folder, 'emergencies')
  const other = newSigningKey()
  const forged = order('0.0.0.0/0')
  await diskFiles.makeFolder(folder)
  await writeFile(join(folder, forged.id), sealOrder(forged, createSigner(other.publicKey, other.privateKey)))
  const mine = order('127.0.0.66')
  await writeFile(join(folder, forged.id.replace(/./, 'x')), sealOrder(mine, signer))
  const orders = await startOrders(t, edge)
  assert.deepEqual([orders.entries(), orders.state()], [[], []])
})

test('a node with an order that it cannot read starts, says so, and enforces the order once it can', async (t) => {
  let isBroken = true
  const files: Files = {
    ...diskFiles,
    read: async (file) => {
      if (isBroken && file.includes('emergencies')) throw new Error('EIO')
      return diskFiles.read(file)
    },
  }
  const edge = await startEdge(t, { certificates: ['app.example.com'] })
  const folder = join(edge.settings.folder, 'emergencies')
  const { reach } = await putOpenEdges(t, edge)
  const before = await startOrders(t, edge)
  const given = order('127.0.0.66')
  await before.give(given)
  await before.stop()
  const ended = newOrder({ ...given, id: 'e'.repeat(12), lifeSeconds: 60 }, Date.now() - 3_600_000)
  await writeFile(join(folder, ended.id), sealOrder(ended, signer))

  const orders = await startOrders(t, edge, { files })
  assert.deepEqual([orders.entries(), orders.unread().length], [[], 2])
  isBroken = false
  await poll(() => orders.state().length === 1)
  assert.deepEqual(await reach(attacker), shut)
  assert.deepEqual(orders.unread(), [])
  assert.deepEqual(await diskFiles.list(folder), [given.id], 'an order that ended while the node was off')
})

test('a node whose folder of orders cannot be listed says so', async (t) => {
  const edge = await startEdge(t, { certificates: ['app.example.com'] })
  const files: Files = { ...diskFiles, list: () => Promise.reject(new Error('EACCES')) }
  const orders = await startOrders(t, edge, { files })
  assert.deepEqual(orders.unread(), [join(edge.settings.folder, 'emergencies')])
})
