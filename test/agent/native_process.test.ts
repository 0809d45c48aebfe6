// Native backends through reloads, crashes and other agents: exactly the wanted ones are there, and never a wrong upstream.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { configFile } from '../../src/agent/haproxy/settings.ts'
import { poll } from '../harness/poll.ts'
import { get } from './http_harness.ts'
import {
  answersOf,
  type NamedServer,
  onlyTheseNatives,
  routeTo,
  startNamedServer,
  staticBackend,
  tcpCheck,
} from './native_harness.ts'
import { type Edge, id, startEdge } from './proxy_harness.ts'

const certificates = ['app.example.com']
const checked = { health_check: tcpCheck }
/** No record can say this; it stands for settings that HAProxy may refuse one day. */
const unusable = { ...tcpCheck, interval_seconds: 1e9 }
const at = ({ address, port }: NamedServer) => `${address}:${port}`

async function workerOf({ settings }: Edge): Promise<number> {
  const table = await ask(settings.masterSocket, 'show proc').catch(() => '')
  return Number(/^(\d+)\s+worker\s/m.exec(table)?.[1])
}

/** A static backend and a failover backend with one server each, and a route to each of them. */
async function twoBackends(edge: Edge, servers: readonly [NamedServer, NamedServer]) {
  const [account, alone, member, group] = [id('ac'), id('bkdst'), id('bkdst'), id('bkdfo')]
  await edge.put({
    [`backend.${alone}`]: staticBackend([servers[0]], checked),
    [`backend.${member}`]: staticBackend([servers[1]], checked),
    [`failover.${group}`]: { account, backends: [member] },
  })
  const { record } = await routeTo(edge, alone, account)
  await edge.put({ [`route.${id('edghtsrt')}`]: { ...record, match: '/group', backend: group } })
  return { account, alone, member, group, route: record }
}

/** Requests without a pause, until the returned function is called; that resolves to what was answered how often. */
function traffic(edge: Edge, path: string) {
  let isOver = false
  const answers: Record<string, number> = {}
  const running = (async () => {
    while (!isOver) {
      const { status, body } = await get(edge, { path })
      const answer = status === 200 ? body : `${status} ${body}`
      answers[answer] = (answers[answer] ?? 0) + 1
    }
  })()
  return async () => {
    isOver = true
    await running
    return answers
  }
}

test('a reload under traffic loses no request: the new worker has the native backends from its start', async (t) => {
  const edge = await startEdge(t, { certificates })
  const servers = [await startNamedServer(t, 'alone'), await startNamedServer(t, 'grouped')] as const
  const { alone, group } = await twoBackends(edge, servers)
  const before = await workerOf(edge)
  const stops = ['/', '/group'].map((path) => traffic(edge, path))
  // A key that was added by hand makes the agent reload.
  await ask(edge.settings.runtimeSocket, `add map ${edge.settings.folder}/maps/host.map app.example.com edghts_x`)
  await edge.restartAgent()
  await poll(async () => (await workerOf(edge)) !== before)
  await answersOf(edge, 20)
  const answers = await Promise.all(stops.map((stop) => stop()))
  assert.deepEqual(
    answers.map((each) => Object.keys(each)),
    [['alone'], ['grouped']],
  )
  await onlyTheseNatives(edge, { [`${alone}.http`]: [at(servers[0])], [`${group}.http`]: [at(servers[1])] })
})

test('when HAProxy is killed, it comes back with the native backends of now', async (t) => {
  const edge = await startEdge(t, { certificates, options: { flushMs: 3_600_000 } })
  const servers = [await startNamedServer(t, 'alone'), await startNamedServer(t, 'grouped')] as const
  const next = await startNamedServer(t, 'next')
  const { alone, member, group } = await twoBackends(edge, servers)
  await edge.put({ [`backend.${member}`]: staticBackend([next]) })
  const before = await workerOf(edge)
  process.kill(before, 'SIGKILL')
  await poll(async () => {
    const now = await workerOf(edge)
    return now > 0 && now !== before
  })
  await poll(
    () => answersOf(edge, 1, { path: '/group' }),
    (answers) => answers.next === 1,
  )
  assert.deepEqual(await answersOf(edge, 3), { alone: 3 })
  await onlyTheseNatives(edge, { [`${alone}.http`]: [at(servers[0])], [`${group}.http`]: [at(next)] })
})

test('another agent finds the native backends, changes what is different, and interrupts no request', async (t) => {
  const edge = await startEdge(t, { certificates })
  const servers = [await startNamedServer(t, 'alone'), await startNamedServer(t, 'grouped')] as const
  const next = await startNamedServer(t, 'next')
  const { alone, member, group, account } = await twoBackends(edge, servers)
  const before = await workerOf(edge)
  const stop = traffic(edge, '/')
  await edge.restartAgent()
  await onlyTheseNatives(edge, { [`${alone}.http`]: [at(servers[0])], [`${group}.http`]: [at(servers[1])] })

  // As if these had arrived while there was no agent.
  const added = id('bkdwd')
  await edge.restartAgent({
    [`backend.${member}`]: staticBackend([next], checked),
    [`weighted.${added}`]: { account, backends: [[member, 1]] },
  })
  assert.deepEqual(await answersOf(edge, 3, { path: '/group' }), { next: 3 })
  await onlyTheseNatives(edge, { [`${alone}.http`]: [at(servers[0])], [`${group}.http`]: [at(next)] })
  assert.deepEqual(Object.keys(await stop()), ['alone'])
  assert.equal(await workerOf(edge), before, 'without a reload')
})

test('an agent that was killed while it made or removed a backend leaves nothing that the next one would use', async (t) => {
  const edge = await startEdge(t, { certificates })
  const servers = [await startNamedServer(t, 'alone'), await startNamedServer(t, 'grouped')] as const
  const stranger = await startNamedServer(t, 'stranger')
  const { alone, group, route } = await twoBackends(edge, servers)
  const stats = await ask(edge.settings.runtimeSocket, 'show stat -1 2 -1')
  const name = new RegExp(`^${group}[^,]*`, 'm').exec(stats)?.[0] ?? ''
  // Half-way: unpublished, and one that was never finished; and one that no record knows, as of a deleted tenant.
  await ask(edge.settings.runtimeSocket, `unpublish backend ${name}`)
  const unknown = `${id('bkdst')}.http.0123456789ab`
  await ask(
    edge.settings.runtimeSocket,
    `add backend ${unknown} from native_http_least;add server ${unknown}/x.1 127.0.0.1:${stranger.port};enable server ${unknown}/x.1;publish backend ${unknown}`,
  )
  await edge.restartAgent()
  assert.deepEqual(await answersOf(edge, 3, { path: '/group' }), { grouped: 3 })
  await onlyTheseNatives(edge, { [`${alone}.http`]: [at(servers[0])], [`${group}.http`]: [at(servers[1])] })

  // An id that is used again, for other servers: the old ones are never asked.
  await edge.put({ [`backend.${alone}`]: null })
  assert.deepEqual(await answersOf(edge, 2), { 503: 2 })
  const asked = servers[0].requests.length
  await edge.restartAgent({ [`backend.${alone}`]: staticBackend([stranger], checked) })
  assert.deepEqual(await answersOf(edge, 5), { stranger: 5 })
  assert.equal(servers[0].requests.length, asked)
  assert.equal(route.backend, alone)
})

test('a native backend that HAProxy refuses keeps neither the node nor the other backends down', async (t) => {
  const edge = await startEdge(t, { certificates })
  const servers = [await startNamedServer(t, 'alone'), await startNamedServer(t, 'grouped')] as const
  const { alone, route } = await twoBackends(edge, servers)
  const bad = id('bkdst')
  await edge.put({ [`backend.${bad}`]: staticBackend([servers[0]], { health_check: unusable }) })
  await edge.put({ [`route.${id('edghtsrt')}`]: { ...route, match: '/bad', backend: bad } })
  assert.deepEqual(await answersOf(edge, 2, { path: '/bad' }), { 503: 2 })
  assert.match(String(edge.troubles.at(-1)), new RegExp(`${bad} is not served by this node`))
  assert.deepEqual(await answersOf(edge, 2), { alone: 2 })
  assert.ok(!(await readFile(configFile(edge.settings), 'utf8')).includes(bad))
  await edge.put({ [`backend.${bad}`]: staticBackend([servers[1]], checked) })
  assert.deepEqual(await answersOf(edge, 2, { path: '/bad' }), { grouped: 2 })
  assert.equal(edge.proxy.shadowed({ map: 'upstream', key: alone, value: '' }), undefined)
})

test('a node whose records have such a backend starts without it', async (t) => {
  const edge = await startEdge(t, { certificates })
  const servers = [await startNamedServer(t, 'alone'), await startNamedServer(t, 'grouped')] as const
  const { alone, group } = await twoBackends(edge, servers)
  // Otherwise everything would be added at run time.
  await edge.proxy.stop()
  await edge.restartAgent({ [`backend.${alone}`]: staticBackend([servers[0]], { health_check: unusable }) })
  assert.match(edge.troubles.map(String).join('\n'), /HAProxy refuses a native backend.*is not served by this node/s)
  assert.deepEqual(await answersOf(edge, 2), { 503: 2 })
  assert.deepEqual(await answersOf(edge, 2, { path: '/group' }), { grouped: 2 })
  await onlyTheseNatives(edge, { [`${group}.http`]: [at(servers[1])] })
})
