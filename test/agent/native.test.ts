// Backends of several servers: a dead one is not used, and clients do not notice.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { poll } from '../harness/poll.ts'
import { get, putHttpsEdge, putRoute } from './http_harness.ts'
import {
  answersOf,
  httpCheck,
  onlyTheseNatives,
  routeTo,
  startNamedServer,
  staticBackend,
  tcpCheck,
} from './native_harness.ts'
import { id, startEdge } from './proxy_harness.ts'

const certificates = ['app.example.com']

test('all addresses of a name are used, also without a health check', async (t) => {
  const edge = await startEdge(t, { certificates })
  const first = await startNamedServer(t, 'first')
  const second = await startNamedServer(t, 'second', { address: '127.0.0.2', port: first.port })
  const [account, backend] = [id('ac'), id('bkdst')]
  await edge.put({ [`backend.${backend}`]: staticBackend([first, second]) })
  await routeTo(edge, backend, account)
  // By open requests: which of two idle servers HAProxy chooses is not promised, so the first request stays open.
  const answered = Promise.withResolvers<void>()
  first.gate = second.gate = answered.promise
  const arrived = (count: number) =>
    poll(
      () => first.requests.length + second.requests.length,
      (requests) => requests === count,
    )
  const one = get(edge)
  await arrived(1)
  const two = get(edge)
  await arrived(2)
  answered.resolve()
  assert.deepEqual([(await one).body, (await two).body].sort(), ['first', 'second'])
  await onlyTheseNatives(edge, { [`${backend}.http`]: [`127.0.0.1:${first.port}`, `127.0.0.2:${first.port}`] })
})

test('a server that fails its health check gets no requests until it passes again', async (t) => {
  const edge = await startEdge(t, { certificates })
  const first = await startNamedServer(t, 'first')
  const second = await startNamedServer(t, 'second', { address: '127.0.0.2', port: first.port })
  const backend = id('bkdst')
  await edge.put({ [`backend.${backend}`]: staticBackend([first, second], { health_check: httpCheck }) })
  await routeTo(edge, backend, id('ac'))
  first.status = 503
  await poll(
    () => answersOf(edge, 10),
    (answers) => answers.second === 10,
  )
  assert.equal(first.checks.at(-1)?.headers.host, `upstream.test:${first.port}`)
  first.status = 200
  await poll(
    () => answersOf(edge, 10),
    (answers) => (answers.first ?? 0) > 2,
  )
})

test('when all servers are down, the answer is 503 immediately, with a reason and an id', async (t) => {
  const edge = await startEdge(t, { certificates })
  const only = await startNamedServer(t, 'only')
  const backend = id('bkdst')
  await edge.put({ [`backend.${backend}`]: staticBackend([only], { health_check: tcpCheck }) })
  await routeTo(edge, backend, id('ac'))
  assert.deepEqual(await answersOf(edge, 1), { only: 1 })
  await only.stop()
  const answer = await poll(
    () => get(edge),
    ({ body }) => body.includes('ERR_NO_HEALTHY_BACKEND'),
  )
  assert.equal(answer.status, 503)
  assert.match(answer.head, /^x-request-id: [0-9a-f-]{36}$/im)
  await only.start()
  await poll(
    () => answersOf(edge, 1),
    (answers) => answers.only === 1,
  )
})

test('one server without a check is dialed as before, without a native backend', async (t) => {
  const edge = await startEdge(t, { certificates })
  const only = await startNamedServer(t, 'only')
  await putRoute(edge, await putHttpsEdge(edge), only)
  assert.deepEqual(await answersOf(edge, 1), { only: 1 })
  await onlyTheseNatives(edge, {})
})

test('what checks find is reported with its reason, and a server that is down stays so in the next backend', async (t) => {
  const edge = await startEdge(t, { certificates })
  const first = await startNamedServer(t, 'first')
  const second = await startNamedServer(t, 'second', { address: '127.0.0.2', port: first.port })
  const [account, backend] = [id('ac'), id('bkdst')]
  const record = (more: object) => staticBackend([first, second], { health_check: { ...httpCheck, ...more } })
  await edge.put({ [`backend.${backend}`]: record({}) })
  await routeTo(edge, backend, account)
  first.status = 418
  const seen = await poll(
    () => edge.health.findLast(({ status }) => status === 'down'),
    (found) => found !== undefined,
  )
  assert.deepEqual(
    { ...seen, at: 0 },
    {
      backend,
      account,
      address: '127.0.0.1',
      port: first.port,
      status: 'down',
      reason: 'the health check got status 418',
      at: 0,
    },
  )
  // Another backend, whose first check is far away: at run time, and in a new worker.
  await edge.put({ [`backend.${backend}`]: record({ interval_seconds: 300 }) })
  assert.deepEqual(await answersOf(edge, 10), { second: 10 })
  const worker = async () =>
    /^(\d+)\s+worker/m.exec(await ask(edge.settings.masterSocket, 'show proc').catch(() => ''))?.[1]
  const before = await worker()
  process.kill(Number(before), 'SIGKILL')
  await poll(worker, (now) => now !== undefined && now !== before)
  await poll(
    () => answersOf(edge, 1),
    (answers) => !('0' in answers),
  )
  assert.deepEqual(await answersOf(edge, 10), { second: 10 })
})
