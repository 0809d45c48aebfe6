// Every open WebSocket is recorded, so that it can be closed when the rules of its route change: what cannot be recorded
// must not open.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { policyFolder } from '../../src/agent/haproxy/settings.ts'
import { holdsFor, pause, poll } from '../harness/poll.ts'
import { putHttpsEdge, putRoute } from './http_harness.ts'
import { type Edge, id, policyFile, startEdge } from './proxy_harness.ts'
import { extendedConnect, openHttp2, startEcho } from './websocket_harness.ts'

const certificates = ['app.example.com']
/** HAProxy allows a hundred streams on a connection. */
const perConnection = 50
const unlimited = { perSource: 10_000, perEdge: 10_000, perAccount: 10_000, unlimitedSources: [] }

/** Opens WebSockets over HTTP/2 one after another: the streams that are open, and why the others were refused. */
async function openMany(t: TestContext, edge: Edge, path: string, count: number) {
  const open = new Set<{ closed: boolean; destroyed: boolean }>()
  const refused: Record<string, number> = {}
  let session = await openHttp2(t, edge)
  for (let index = 0; index < count; index++) {
    if (index > 0 && index % perConnection === 0) session = await openHttp2(t, edge)
    const { stream, status, body } = await extendedConnect(session, path)
    if (status === 200) {
      open.add(stream)
      stream.once('close', () => open.delete(stream))
      continue
    }
    const { error_code, details } = JSON.parse(await body)
    const why = `${status} ${error_code} ${details.limit ?? ''}`.trim()
    refused[why] = (refused[why] ?? 0) + 1
  }
  return { open, refused }
}

test('a WebSocket that cannot be recorded is refused, so a close leaves none behind', async (t) => {
  const maxconn = 50
  const edge = await startEdge(t, { certificates, maxconn, limits: unlimited })
  const echo = await startEcho(t)
  const https = await putHttpsEdge(edge)
  const routes = [
    await putRoute(edge, https, echo, { match: '/one' }),
    await putRoute(edge, https, echo, { match: '/two' }),
  ]
  const [one, two] = [await openMany(t, edge, '/one', 60), await openMany(t, edge, '/two', 60)]
  assert.deepEqual([one.refused, two.refused], [{}, { '503 ERR_EDGE_LIMIT websockets': 20 }])
  assert.equal(echo.server.clients.size, 2 * maxconn)
  // Longer than the table keeps those that have ended.
  await holdsFor(2_500, () => one.open.size + two.open.size === 2 * maxconn)

  assert.equal(await edge.proxy.closeSessions(routes), 2 * maxconn)
  await poll(() => one.open.size + two.open.size === 0)
  await poll(() => echo.server.clients.size === 0)
  // What has ended leaves its place to others.
  await poll(async () => (await openMany(t, edge, '/two', 5)).open.size === 5)
})

test('neither one account nor refused clients keep the WebSockets of others out', async (t) => {
  const maxconn = 50
  const limits = { ...unlimited, perAccount: 25 }
  const edge = await startEdge(t, { certificates, maxconn, limits })
  const echo = await startEcho(t)
  const https = await putHttpsEdge(edge)
  const greedy = id('ac')
  const denyAll = await edge.policy('deny 0.0.0.0/0')
  await putRoute(edge, https, echo, { match: '/greedy/1', account: greedy })
  await putRoute(edge, https, echo, { match: '/greedy/2', account: greedy })
  await putRoute(edge, https, echo, { match: '/shut', policies: [denyAll] })
  await putRoute(edge, https, echo, { match: '/modest' })
  const first = await openMany(t, edge, '/greedy/1', 100)
  const second = await openMany(t, edge, '/greedy/2', 100)
  assert.deepEqual(Object.keys({ ...first.refused, ...second.refused }), ['503 ERR_EDGE_LIMIT account'])
  assert.ok(first.open.size + second.open.size <= 1.5 * limits.perAccount, `${first.open.size} + ${second.open.size}`)

  // They never read their refusal, and stay for as long as HAProxy waits for them.
  await holdRefused(t, edge, 2 * maxconn)
  assert.deepEqual((await openMany(t, edge, '/modest', 20)).refused, {})
  await holdsFor(100, () => first.open.size > 0)
})

/** Clients that take no byte of an answer's body. */
async function holdRefused(t: TestContext, edge: Edge, count: number): Promise<void> {
  for (let opened = 0; opened < count; opened += perConnection) {
    const session = await openHttp2(t, edge, { initialWindowSize: 0 })
    const answers = Array.from({ length: perConnection }, () => extendedConnect(session, '/shut'))
    for (const { status } of await Promise.all(answers)) assert.equal(status, 403)
  }
}

/**
 * A policy whose file is a pipe: the thread of HAProxy that reads it waits there. Its commands may come to the same thread,
 * and then have to be tried again on another one: `meanwhile` resolves to false.
 */
async function startSlowPolicy(edge: Edge, ...rules: string[]) {
  const hash = randomBytes(32).toString('hex')
  const file = join(policyFolder(edge.settings), hash)
  await mkdir(policyFolder(edge.settings), { recursive: true })
  execFileSync('mkfifo', [file])
  const policy = id('ipp')
  await edge.put({ [`policy.${policy}`]: hash })
  return {
    policy,
    async meanwhile(work: () => Promise<unknown>): Promise<boolean> {
      // Fails until the other end is open, which is when HAProxy waits.
      const pipe = await poll(() => open(file, constants.O_WRONLY | constants.O_NONBLOCK).catch(() => undefined))
      const working = work()
      const isDone = await Promise.race([working.then(() => true), pause(500).then(() => false)])
      await pipe?.write(policyFile(...rules))
      await pipe?.close()
      await working
      return isDone
    },
  }
}

test('a WebSocket that is decided before a change and opens after the close is refused', async (t) => {
  const edge = await startEdge(t, { certificates, more: { threads: 4 } })
  const echo = await startEcho(t)
  const https = await putHttpsEdge(edge)
  const attempt = async () => {
    const slow = await startSlowPolicy(edge, 'allow 127.0.0.1')
    const route = await putRoute(edge, https, echo, { match: `/${slow.policy}`, policies: [slow.policy] })
    const answer = extendedConnect(await openHttp2(t, edge), `/${slow.policy}`)
    const wasBetween = await slow.meanwhile(async () => {
      await edge.put({ [`policy.${slow.policy}`]: await edge.writePolicyFile('deny 0.0.0.0/0') })
      await edge.proxy.closeSessions([route])
    })
    const { status, body } = await answer
    return wasBetween && { status, body: await body }
  }
  const refused = await poll(attempt)
  assert.ok(refused && refused.status === 503, JSON.stringify(refused))
  assert.equal(JSON.parse(refused.body).error_code, 'ERR_NOT_READY')
})
