import assert from 'node:assert/strict'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { connect } from 'node:tls'
import { isDeepStrictEqual } from 'node:util'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { poll } from '../harness/poll.ts'
import { type Edge, firstBytes, id, openConnection, selfSigned, startEdge, startUpstream } from './proxy_harness.ts'

async function processes({ settings }: Edge) {
  const table = await ask(settings.masterSocket, 'show proc')
  const pid = (type: string) => Number(new RegExp(`^(\\d+)\\s+${type}\\s`, 'm').exec(table)?.[1])
  return { master: pid('master'), worker: pid('worker') }
}

async function withTcpEdge(edge: Edge, port: number) {
  const [tcp, backend] = [id('edgtcp'), id('bkdst')]
  const policy = await edge.policy('allow 127.0.0.1')
  const record = { account: id('ac'), backend, policies: [policy] }
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port, tls: false, host: 'upstream.test' },
    [`tcp.${tcp}`]: { ...record, hostports: [`127.0.0.1:${edge.tcpPort}`] },
  })
  return { key: `tcp.${tcp}`, record: { ...record, hostports: [`127.0.0.1:${edge.tcpPort}`] } }
}

const decisions = (edge: Edge) =>
  Promise.all(
    ['127.0.0.1', '127.0.0.2'].map(async (from) => (await firstBytes({ port: edge.tcpPort, from })) === 'hello'),
  )

for (const victim of ['master', 'worker'] as const) {
  test(`when its ${victim} is killed, HAProxy comes back with the same decisions`, async (t) => {
    const edge = await startEdge(t, { options: { flushMs: 3_600_000 } })
    const upstream = await startUpstream(t, 'hello')
    await withTcpEdge(edge, upstream.port)
    assert.deepEqual(await decisions(edge), [true, false])
    const before = await processes(edge)
    process.kill(before[victim], 'SIGKILL')
    await poll(async () => {
      const now = await processes(edge).catch(() => before)
      return now.worker > 0 && now.worker !== before.worker
    })
    // The new worker is listed before it accepts connections.
    await poll(
      () => decisions(edge),
      (now) => isDeepStrictEqual(now, [true, false]),
    )
    await edge.put({ [`tcp.${id('edgtcp')}`]: null })
    assert.equal((await processes(edge)).worker !== before.worker, true)
  })
}

test('a restarted agent finds HAProxy running and updates it without a restart', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'hello')
  const { key, record } = await withTcpEdge(edge, upstream.port)
  const before = await processes(edge)
  const long = openConnection({ port: edge.tcpPort })
  await poll(() => upstream.sockets.size === 1)
  await edge.proxy.detach()
  assert.deepEqual(await decisions(edge), [true, false], 'without an agent')
  await edge.restartAgent({ [key]: { ...record, policies: null } })
  assert.deepEqual(await decisions(edge), [true, true])
  await edge.restartAgent({ [key]: null })
  assert.deepEqual(await decisions(edge), [false, false])
  assert.deepEqual(await processes(edge), before)
  assert.equal(long.readyState, 'open')
  long.destroy()
})

test('a change that the runtime socket rejects is loaded from files, and no connection is lost', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'hello')
  const { key, record } = await withTcpEdge(edge, upstream.port)
  const before = await processes(edge)
  const long = openConnection({ port: edge.tcpPort })
  await poll(() => upstream.sockets.size === 1)
  // Someone with a hand on the socket: what we would change is not there any more.
  await ask(edge.settings.runtimeSocket, `clear map ${join(edge.settings.folder, 'maps/tcp.map')}`)
  await edge.put({ [key]: { ...record, policies: null } })
  assert.deepEqual(await decisions(edge), [true, true])
  const after = await processes(edge)
  assert.equal(after.master, before.master)
  assert.notEqual(after.worker, before.worker)
  assert.equal(long.readyState, 'open')
  assert.equal(edge.troubles.length, 1)

  await edge.put({ [key]: null })
  assert.equal(await edge.proxy.closeSessions([key.slice(4)]), 1, 'in the previous worker too')
  await poll(() => upstream.sockets.size === 0)
  long.destroy()
})

test('a change that cannot be loaded is reported, and the next one that can be loaded repairs it', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'hello')
  const { key, record } = await withTcpEdge(edge, upstream.port)
  const file = join(edge.settings.folder, 'answers', '400.http')
  const good = await readFile(file, 'utf8')
  await ask(edge.settings.runtimeSocket, `clear map ${join(edge.settings.folder, 'maps/tcp.map')}`)
  await rm(file)
  await assert.rejects(edge.put({ [key]: { ...record, policies: null } }), /refuses its configuration.*400\.http/s)
  await writeFile(file, good)
  await edge.put({ [`policy.${id('ipp')}`]: await edge.writePolicyFile('allow 10.0.0.0/8') })
  assert.deepEqual(await decisions(edge), [true, true])
})

test('many changes at once affect no other edge, and no client is refused in between', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'hello')
  const { record } = await withTcpEdge(edge, upstream.port)
  const others = Array.from({ length: 3_000 }, (_, index) => [`tcp.${id('edgtcp')}`, index] as const)
  const records = (port: number) =>
    Object.fromEntries(
      others.map(([key, index]) => [key, { ...record, hostports: [`10.0.${index >> 8}.${index & 255}:${port}`] }]),
    )
  let isOver = false
  const seen = (async () => {
    const all: string[] = []
    while (!isOver) all.push(await firstBytes({ port: edge.tcpPort }))
    return all
  })()
  for (const port of [1_000, 2_000, 3_000]) await edge.put(records(port))
  await edge.put(Object.fromEntries(others.map(([key]) => [key, null])))
  isOver = true
  const answers = await seen
  assert.ok(answers.length > 5)
  assert.deepEqual(new Set(answers), new Set(['hello']))
  const entries = await ask(edge.settings.runtimeSocket, `show map ${join(edge.settings.folder, 'maps/tcp.map')}`)
  assert.equal(entries.split('\n').length, 1)
  assert.deepEqual(edge.troubles, [])
})

test('certificates are added, replaced and removed without a restart, and a broken one affects nothing else', async (t) => {
  const edge = await startEdge(t, { options: { certificatesMs: 100 }, certificates: ['one.example.com'] })
  const before = await processes(edge)
  const served = (servername: string) =>
    new Promise<string>((resolve) => {
      const socket = connect({ port: edge.httpsPort, host: '127.0.0.1', servername, rejectUnauthorized: false })
      socket.on('secureConnect', () => resolve(socket.getPeerCertificate().fingerprint256))
      socket.on('error', () => resolve('none'))
      socket.on('close', () => socket.destroy())
    })
  const one = await served('one.example.com')
  assert.notEqual(one, 'none')
  assert.equal(await served('two.example.com'), 'none')
  const file = await selfSigned(edge.settings, 'two.example.com')
  await poll(async () => (await served('two.example.com')) !== 'none')
  const two = await served('two.example.com')
  await selfSigned(edge.settings, 'two.example.com')
  await poll(async () => (await served('two.example.com')) !== two)
  await writeFile(file, 'no certificate')
  await writeFile(join(edge.settings.certificateFolder, 'three.pem'), await readFile(file))
  await poll(() => edge.troubles.length === 2)
  assert.notEqual(await served('two.example.com'), 'none', 'the last good one')
  assert.deepEqual(await processes(edge), before)

  process.kill(before.worker, 'SIGKILL')
  await poll(async () => (await served('two.example.com')) !== 'none')
  await rm(file)
  await poll(async () => (await served('two.example.com')) === 'none')
  assert.equal(await served('one.example.com'), one)
})
