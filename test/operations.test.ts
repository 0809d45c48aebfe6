// What an operator relies on: probes, metrics, and how the service meets a database that is not as it should be.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startPostgres } from '../dev/postgres.ts'
import { type ControlPlane, newDatabase, type ServeProcess, startControlPlane } from './harness/control_plane.ts'
import { loadScaledTimeout } from './harness/load_scaled_timeout.ts'
import { pause, poll } from './harness/poll.ts'
import { startTcpProxy } from './harness/tcp_proxy.ts'

const databaseUrl = await newDatabase()
const proxy = await startTcpProxy({ after }, databaseUrl)
// The test looks straight into the database; the service reaches it through the proxy.
const env = { GATEHOUSE_DATABASE_URL: proxy.url }
const plane = await startControlPlane({ after }, { databaseUrl, env })
const [server] = plane.processes as [ServeProcess]
const admin = await plane.newAccount()

async function probe({ origin }: ServeProcess, path: string) {
  const response = await fetch(origin + path)
  return { status: response.status, text: await response.text() }
}
const readiness = async ({ processes }: ControlPlane, of = 0) => probe(processes[of] as ServeProcess, '/readyz')

test('/healthz reports that the process runs and /readyz that it can serve, without a key', async () => {
  assert.deepEqual(await probe(server, '/healthz'), { status: 200, text: '{"status":"ok"}' })
  assert.deepEqual(await probe(server, '/readyz'), { status: 200, text: '{"status":"ready"}' })
})

test('/readyz returns 503 and names synchronous_commit when the database acknowledges too early', async (t) => {
  const unsafe = await startControlPlane(t)
  await unsafe.db.query({
    text: `alter database ${new URL(unsafe.databaseUrl).pathname.slice(1)} set synchronous_commit = off`,
  })
  await unsafe.startProcess()
  const { status, text } = await readiness(unsafe, 1)
  assert.equal(status, 503)
  assert.match(text, /synchronous_commit=off/)
  assert.doesNotMatch(text, /fsync|full_page_writes/)
})

test('/readyz returns 503 and names fsync, full_page_writes and `gatehouse migrate` where they are missing', async (t) => {
  const postgres = await startPostgres({ flags: ['-c', 'fsync=off', '-c', 'full_page_writes=off'] })
  t.after(() => postgres.stop())
  const { status, text } = await readiness(await startControlPlane(t, { databaseUrl: postgres.url }))
  assert.equal(status, 503)
  const { faults } = JSON.parse(text)
  assert.equal(faults.length, 3)
  for (const named of ['fsync=off', 'full_page_writes=off', "'gatehouse migrate'"])
    assert.ok(
      faults.some((fault: string) => fault.includes(named)),
      text,
    )
})

test('/readyz returns 503 when the database has migrations that this version does not know', async (t) => {
  const other = await startControlPlane(t)
  await other.db.query({ text: "update migrations set checksum = 'of another text'" })
  const { status, text } = await readiness(other)
  assert.equal(status, 503)
  assert.match(text, /different histories/)
})

test('while PostgreSQL only reads, changes get 503 with that reason, and /readyz has a warning', async (t) => {
  const other = await startControlPlane(t)
  const account = await other.newAccount()
  const setReadOnly = (value: string) =>
    other.db.query({
      text: `alter database ${new URL(other.databaseUrl).pathname.slice(1)} set default_transaction_read_only = ${value}`,
    })
  await setReadOnly('on')
  await other.startProcess()
  const client = other.clientFor(account.token)
  const { status, body } = await client('POST', '/api_keys', {}, { process: 1 })
  assert.deepEqual([status, body.error_code], [503, 'ERR_UNAVAILABLE'])
  assert.match(body.msg, /^The database of the service accepts no changes\. Nothing was changed/)
  assert.equal((await client('GET', '/api_keys', undefined, { process: 1 })).status, 200)
  const ready = await readiness(other, 1)
  assert.equal(ready.status, 200)
  assert.match(JSON.parse(ready.text).warnings[0], /^PostgreSQL refuses changes: .*read-only transaction$/)
  const { text: metrics } = await probe(other.processes[1] as ServeProcess, '/metrics')
  assert.match(metrics, /^gatehouse_database_refuses_changes 1$/m)
})

test('/metrics counts requests by operation and status, and shows the connections to the database', async () => {
  const counted = async () => {
    // The pool closes connections that were idle for a while.
    assert.equal((await admin('GET', '/api_keys')).status, 200)
    const { status, text } = await probe(server, '/metrics')
    assert.equal(status, 200)
    assert.match(text, /^gatehouse_db_connections\{state="total"\} [1-9]\d*$/m)
    assert.match(text, /^gatehouse_build_info\{version="\d+\.\d+\.\d+"\} 1$/m)
    return Number(/^gatehouse_http_requests_total\{operation="caller.get",status="200"\} (\d+)$/m.exec(text)?.[1] ?? 0)
  }
  const before = await counted()
  for (let call = 0; call < 3; call++) assert.equal((await admin('GET', '/caller')).status, 200)
  // Counted when the answer has gone out, which the client may learn first.
  assert.equal(await poll(counted, (count) => count >= before + 3), before + 3)
})

test('every request has one JSON line in the log under its operation id, and probes have none', async () => {
  const answers = await Promise.all(Array.from({ length: 50 }, () => admin('GET', '/api_keys?limit=1')))
  const ids = new Set(answers.map(({ headers }) => headers.get('operation-id')))
  await probe(server, '/healthz')
  const lines = () => server.log.filter(({ operation_id }) => ids.has(operation_id as string))
  await poll(() => lines().length >= 50)
  assert.equal(lines().length, 50)
  const [line] = lines()
  assert.deepEqual(
    [line?.operation, line?.method, line?.path, line?.status, line?.owner_id],
    ['api_keys.list', 'GET', '/api_keys', 200, admin.adminId],
  )
  assert.deepEqual(
    server.log.filter(({ level, path }) => level === 'unreadable' || path === '/healthz'),
    [],
  )
})

/** A 503 says to try again in a second: a connection may turn out to be dead only when it is used. */
const servesAgain = () =>
  poll(
    () => admin('GET', '/api_keys'),
    ({ status }) => status === 200,
  )

test('without its database the service returns 503 with Retry-After, never 500, and recovers without a restart', async () => {
  await proxy.cut()
  for (const [method, path, body] of [
    ['GET', '/api_keys'],
    ['POST', '/api_keys', {}],
    ['DELETE', `/users/${admin.adminId}`],
  ] as const) {
    const { status, headers, body: refusal } = await admin(method, path, body)
    assert.deepEqual([status, refusal.error_code, headers.get('retry-after')], [503, 'ERR_UNAVAILABLE', '1'])
  }
  const { status, text } = await probe(server, '/readyz')
  assert.equal(status, 503)
  assert.match(text, /PostgreSQL does not answer/)
  assert.doesNotMatch(text, /postgres:postgres/, 'the password is not shown')
  assert.equal((await probe(server, '/healthz')).status, 200)
  await proxy.heal()
  await servesAgain()
  assert.equal((await probe(server, '/readyz')).status, 200)
})

test('requests get 503 while the database is gone under load, and never 500', async () => {
  const seen = new Map<number, number>()
  let over = false
  const worker = async () => {
    while (!over) {
      const { status } = await admin('POST', '/api_keys', {})
      seen.set(status, (seen.get(status) ?? 0) + 1)
    }
  }
  const load = Array.from({ length: 6 }, worker)
  for (let round = 0; round < 8; round++) {
    // Each time until it works again by itself, however slow the machine is.
    const served = seen.get(201) ?? 0
    await poll(() => (seen.get(201) ?? 0) >= served + 10, Boolean, { everyMs: 5 })
    await proxy.cut()
    await pause(20)
    await proxy.heal()
  }
  over = true
  await Promise.all(load)
  assert.deepEqual([...seen.keys()].sort(), [201, 503])
  await servesAgain()
})

test('a database that does not answer times out after the configured time', async () => {
  const hasty = await plane.startProcess({ GATEHOUSE_DATABASE_TIMEOUT_MS: '500' })
  proxy.silence()
  const began = Date.now()
  const { status, body } = await plane.clientFor(admin.token)('GET', '/api_keys', undefined, { process: 1 })
  assert.deepEqual([status, body.error_code], [503, 'ERR_UNAVAILABLE'])
  assert.equal((await probe(hasty, '/readyz')).status, 503)
  // 500 ms, the second that the server is given to say so itself, and the same for the probe.
  assert.ok(Date.now() - began < loadScaledTimeout(4_000), `it took ${Date.now() - began} ms`)
  await proxy.cut()
  await proxy.heal()
  await servesAgain()
})

test('a change whose COMMIT was not acknowledged is reported as unknown, not as failed', async () => {
  const { body: key } = await admin('POST', '/api_keys', { description: 'before' })
  proxy.breakAfter('after all', 'commit')
  const { status, body, headers } = await admin('PATCH', key.uri, { description: 'after all' })
  assert.deepEqual([status, body.error_code, headers.get('retry-after')], [503, 'ERR_OUTCOME_UNKNOWN', null])
  assert.equal((await admin('GET', key.uri)).body.description, 'after all')
})
