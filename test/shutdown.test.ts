import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import pg from 'pg'
import { toUuid } from '../src/kernel/ids.ts'
import { type Scope, type ServeProcess, startControlPlane } from './harness/control_plane.ts'
import { loadScaledTimeout } from './harness/load_scaled_timeout.ts'
import { poll } from './harness/poll.ts'

/** A request that waits in the database until `release`, because its key is locked there. */
async function requestUnderWay(scope: Scope, env: Record<string, string> = {}) {
  const plane = await startControlPlane(scope, { env })
  const [server] = plane.processes as [ServeProcess]
  const admin = await plane.newAccount()
  const { body: key } = await admin('POST', '/api_keys', { description: 'before' })
  const holder = new pg.Client({ connectionString: plane.databaseUrl })
  await holder.connect()
  scope.after(() => holder.end())
  await holder.query('begin')
  await holder.query('select from api_keys where id = $1 for update', [toUuid(key.id)])
  const answer = admin('PATCH', key.uri, { description: 'after' })
  const waiting = `select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
  await poll(async () => (await holder.query(waiting)).rows[0].n)
  const exit = once(server.child, 'exit')
  return { plane, server, key, answer, exit, release: () => holder.query('commit') }
}

const connects = (server: ServeProcess) =>
  fetch(`${server.origin}/healthz`, { headers: { connection: 'close' } }).then(
    () => true,
    () => false,
  )

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test(`${signal} finishes requests in flight, accepts no new connection, and exits with 0`, async (t) => {
    const { plane, server, key, answer, exit, release } = await requestUnderWay(t)
    // An idle connection that a client keeps must not hold up the end.
    assert.equal((await fetch(`${server.origin}/healthz`)).status, 200)
    server.child.kill(signal)
    await poll(
      () => connects(server),
      (accepted) => !accepted,
    )
    assert.equal(server.child.exitCode, null, 'it ended with a request under way')
    await release()
    const released = Date.now()
    const { status, body } = await answer
    assert.equal(status, 200)
    assert.equal(body.description, 'after')
    assert.deepEqual(await exit, [0, null])
    assert.ok(
      Date.now() - released < loadScaledTimeout(2_000),
      `it took ${Date.now() - released} ms to end after the last answer`,
    )
    const { rows } = await plane.db.query({
      text: 'select description from api_keys where id = $1',
      values: [toUuid(key.id)],
    })
    assert.equal(rows[0].description, 'after')
  })
}

test('after the grace period the process exits anyway', async (t) => {
  const env = { GATEHOUSE_SHUTDOWN_GRACE_MS: '200', GATEHOUSE_DATABASE_TIMEOUT_MS: '1500' }
  const { server, answer, exit } = await requestUnderWay(t, env)
  const began = Date.now()
  server.child.kill('SIGTERM')
  await assert.rejects(answer, 'the connection was kept past the grace time')
  assert.deepEqual(await exit, [0, null])
  assert.ok(Date.now() - began < loadScaledTimeout(4_000), `it took ${Date.now() - began} ms`)
})

test('while nothing reads its log it answers requests, and it ends when told to', async (t) => {
  const plane = await startControlPlane(t)
  const [server] = plane.processes as [ServeProcess]
  server.child.stdout?.pause()
  // Lines of 300 bytes: the pipe is full long before the end.
  for (let round = 0; round < 60; round++) {
    const answers = Array.from({ length: 50 }, () =>
      fetch(`${server.origin}/caller`, { headers: { 'service-version': '2' } }),
    )
    for (const { status } of await Promise.all(answers)) assert.equal(status, 401)
  }
  const waiting = server.child.stdout?.readableLength ?? 0
  const exit = once(server.child, 'exit')
  server.child.kill('SIGTERM')
  assert.deepEqual(await exit, [0, null])
  assert.ok(waiting > 0, 'the log was read')
})
