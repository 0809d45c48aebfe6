// What edge nodes report about upstreams, and who may read it.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { connect } from '@nats-io/transport-node'
import { startNats } from '../../dev/nats.ts'
import { many, one, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { defaultChannels, inboxOf, type Report, type UpstreamHealth } from '../../src/distribution/channels.ts'
import { type Id, newId, toUuid } from '../../src/kernel/ids.ts'
import { createHealthBuffer } from '../../src/publisher/nodes/health_buffer.ts'
import { addSigningKey } from '../../src/publisher/signing_keys.ts'
import { deleteHealthBefore } from '../../src/resources/backends/health_store.ts'
import { secretsBox, startControlPlane } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'

const nats = await startNats()
after(() => nats.stop())
const plane = await startControlPlane({ after }, { env: nats.controlPlane })
await addSigningKey(plane.db, secretsBox)
const node = await connect({ servers: nats.url, user: 'edge-1', pass: 'edge-1', inboxPrefix: inboxOf('edge-1') })
after(() => node.close())

const startedAt = new Date(Date.now() - 60_000).toISOString()
const report = (fields: Partial<Report> = {}): Report => ({
  node: 'edge-1',
  version: '1',
  startedAt,
  applied: 0,
  records: 0,
  refusals: [],
  hits: [],
  ...fields,
})
const seen = (backend: string, fields: Partial<UpstreamHealth> = {}): UpstreamHealth => ({
  backend,
  address: '192.0.2.7',
  port: 8080,
  status: 'failing',
  reason: 'refused the connection',
  since: '2026-01-15T12:00:00.000Z',
  lastFailedAt: '2026-01-15T12:01:00.000Z',
  ...fields,
})
/** Resolves when the active publisher has taken it in. */
const send = (health: UpstreamHealth[], fields: Partial<Report> = {}) =>
  poll(
    () =>
      node
        .request(defaultChannels.reports('edge-1'), JSON.stringify(report({ health, ...fields })), { timeout: 1_000 })
        .then(
          (answer) => answer.string(),
          (error: Error) => error.message,
        ),
    (answer) => answer === 'kept',
  )
type Admin = Awaited<ReturnType<typeof plane.newAccount>>
const newBackend = async (admin: Admin): Promise<{ id: Id<'bkdst'>; uri: string }> =>
  (await admin('POST', '/backends/static', { address: 'app.internal:8080' })).body
const health = async (admin: Admin, id: string) => (await admin('GET', `/backends/static/${id}/health`)).body.addresses

test('what nodes report about a backend is shown to its account, by node and address, and to no other', async () => {
  const [alice, mallory] = [await plane.newAccount(), await plane.newAccount()]
  const backend = await newBackend(alice)
  const path = `/backends/static/${backend.id}/health`
  const ref = { id: backend.id, uri: backend.uri }
  assert.deepEqual((await alice('GET', path)).body, { backend: ref, servers: [], addresses: [] })
  const other = newId('bkdst')
  await send([
    seen(backend.id),
    seen(other),
    seen(backend.id, { address: '2001:db8::1', status: 'down', reason: 'answered 503' }),
  ])
  const addresses = await poll(
    () => health(alice, backend.id),
    ({ length }) => length === 2,
  )
  const [, down] = addresses
  assert.deepEqual(addresses[0], {
    backend: ref,
    node: 'edge-1',
    address: '192.0.2.7:8080',
    status: 'failing',
    reason: 'refused the connection',
    since: '2026-01-15T12:00:00.000Z',
    last_failed_at: '2026-01-15T12:01:00.000Z',
    reported_at: addresses[0].reported_at,
  })
  assert.deepEqual([down.address, down.status, down.reason], ['[2001:db8::1]:8080', 'down', 'answered 503'])
  const hidden = await mallory('GET', path)
  assert.equal(hidden.status, 404)
  assert.deepEqual(hidden.body.msg, (await mallory('GET', `/backends/static/${newId('bkdst')}/health`)).body.msg)

  await send([seen(backend.id, { status: 'up', reason: null, since: '2026-01-15T13:00:00.000Z' })])
  await poll(
    () => health(alice, backend.id),
    ([first]) => first.status === 'up' && first.reason === null && first.since === '2026-01-15T13:00:00.000Z',
  )
  await send([seen(backend.id, { status: 'cleared', reason: null })])
  await poll(
    () => health(alice, backend.id),
    ({ length }) => length === 1,
  )
})

test('rows end with their backend, with a restart of their node, and when they are old', async () => {
  const admin = await plane.newAccount()
  const [gone, kept] = [await newBackend(admin), await newBackend(admin)]
  await send([seen(gone.id), seen(kept.id)])
  await poll(
    () => health(admin, kept.id),
    ({ length }) => length === 1,
  )
  await admin('DELETE', `/backends/static/${gone.id}`)
  const rowsOf = ({ id }: { id: Id<'bkdst'> }) =>
    many(plane.db, sql`select from backend_health where backend_id = ${toUuid(id)}`)
  assert.equal((await rowsOf(gone)).length, 0)

  await send([], { startedAt: new Date().toISOString() })
  await poll(
    () => health(admin, kept.id),
    ({ length }) => length === 0,
  )
  await send([seen(kept.id)], { startedAt: new Date(Date.now() - 30_000).toISOString() })
  await poll(
    () => health(admin, kept.id),
    ({ length }) => length === 1,
  )
  await run(plane.db, sql`update backend_health set reported_at = now() - interval '16 minutes'`)
  assert.deepEqual(await health(admin, kept.id), [], 'not shown')
  await poll(
    () => rowsOf(kept),
    ({ length }) => length === 0,
  )
})

test('a stolen node cannot fill the table', async () => {
  const admin = await plane.newAccount()
  const backend = await newBackend(admin)
  let dropped = 0
  const buffer = createHealthBuffer(plane.db, (count) => {
    dropped += count
  })
  const at = Date.now()
  const count = async () =>
    (await one<{ count: number }>(plane.db, sql`select count(*) from backend_health where node = 'stolen'`)).count
  const flood = (rows: UpstreamHealth[]) => buffer.add(report({ node: 'stolen', health: rows }), at)
  // Addresses of one backend, over several writes.
  for (let round = 0; round < 4; round++) {
    flood(Array.from({ length: 50 }, (_, n) => seen(backend.id, { address: `198.51.100.${round * 50 + n}` })))
    await buffer.flush(at)
  }
  assert.ok((await count()) < 128, 'about 64')
  const full = await count()
  flood([seen(backend.id, { address: '198.51.100.0', reason: 'no response in time' })])
  await buffer.flush(at)
  assert.equal(await count(), full)
  assert.equal((await health(admin, backend.id))[0].reason, 'no response in time', 'what is there is still updated')
  // More between two writes than any node sends.
  assert.equal(dropped, 0)
  flood(Array.from({ length: 1_000 }, () => seen(newId('bkdst'))))
  assert.equal(dropped, 500)
  await buffer.flush(at)
  assert.equal(await count(), full, 'nothing about what is not there')
  await deleteHealthBefore(plane.db, at + 1)
  assert.equal(await count(), 0)
})

test('the metric sums up what live nodes count', async () => {
  await send([], { upstreams: { up: 3, down: 2, failing: 1 } })
  const [{ origin } = assert.fail()] = plane.processes
  const text = await (await fetch(`${origin}/metrics`)).text()
  const counts = [...text.matchAll(/^gatehouse_edge_nodes_upstreams\{status="(\w+)"\} (\d+)$/gm)].map(
    ([, status, n]) => [status, n],
  )
  assert.deepEqual(counts, [
    ['up', '3'],
    ['down', '2'],
    ['failing', '1'],
  ])
})
