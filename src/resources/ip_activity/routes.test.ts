import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Client } from '../../../test/harness/client.ts'
import { startControlPlane } from '../../../test/harness/control_plane.ts'
import { newRoute, newTcpEdge } from '../../../test/harness/fixtures.ts'
import { behindProxy, from, policyWith, restrict } from '../../../test/harness/ip.ts'
import { pause, poll } from '../../../test/harness/poll.ts'
import { newUser } from '../../../test/harness/principals.ts'
import { signIn } from '../../../test/harness/session.ts'
import { addCounts } from '../../access/evidence/counts.ts'
import { addEdgeCounts, type EdgeCount } from '../../access/evidence/edge_counts.ts'
import { createHitSums } from '../../access/evidence/hit_sums.ts'
import { addReportedHits } from '../../access/evidence/reported_hits.ts'
import { deleteEdgeCountsBefore } from '../../access/evidence/roll_ups.ts'
import { many, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { newUuid, toUuid } from '../../kernel/ids.ts'

const plane = await startControlPlane({ after }, { env: behindProxy })
const hourMs = 60 * 60 * 1_000
const thisHour = () => Math.floor(Date.now() / hourMs) * hourMs
const activity = async (as: Client, query = '') => (await as('GET', `/ip_activity${query}`)).body
const none = { refused: 0, warned: 0 }

test('refused and warned calls of the API and the dashboard are counted by the hour, for the account alone', async () => {
  const admin = await plane.newAccount()
  const member = await newUser(plane, admin)
  const browser = await signIn(admin)
  // A session has to pass both restrictions, so the second address passes one and is warned of by the other.
  const [office, home] = [await policyWith(admin, 'allow 127.0.0.0/8'), await policyWith(admin, 'allow 192.0.2.2')]
  await restrict(admin, { type: 'api', enforced: true, ip_policy_ids: [office, home] })
  await restrict(admin, { type: 'dashboard', ip_policy_ids: [office] })
  for (let i = 0; i < 3; i++) assert.equal((await admin('GET', '/caller', undefined, from('192.0.2.1'))).status, 403)
  for (let i = 0; i < 2; i++) assert.equal((await browser('GET', '/caller', undefined, from('192.0.2.2'))).status, 200)

  const { hours, total, edges } = await poll(
    () => activity(member),
    (shown) => shown.total.api.refused === 3 && shown.total.dashboard.warned === 2,
  )
  assert.deepEqual(total, {
    api: { refused: 3, warned: 0 },
    dashboard: { refused: 0, warned: 2 },
    agent: none,
    endpoints: none,
  })
  assert.equal(hours.length, 24)
  for (const [index, { hour }] of hours.entries())
    assert.equal(Date.parse(hour), Date.parse(hours[23].hour) - (23 - index) * hourMs)
  assert.ok(Date.now() - Date.parse(hours[23].hour) < hourMs + 5_000)
  assert.equal(hours.at(-1).api.refused + hours.at(-2).api.refused, 3)
  assert.deepEqual(edges, [])

  const stranger = await activity(await plane.newAccount())
  assert.deepEqual(stranger.total, { api: none, dashboard: none, agent: none, endpoints: none })
})

const atEdge = (edge: { id: string }, fields: Partial<EdgeCount> = {}): EdgeCount => ({
  edgeId: toUuid(edge.id as `edgtcp_${string}`),
  sourceIp: '192.0.2.1',
  outcome: 'refused',
  byModule: true,
  hour: thisHour(),
  count: 1,
  lastAt: Date.now(),
  ...fields,
})

test('edges and routes are listed by refusals, most first, within the requested hours', async () => {
  const admin = await plane.newAccount()
  const [edge, quiet, route] = [await newTcpEdge(admin), await newTcpEdge(admin), await newRoute(admin)]
  const { id } = await restrict(admin, { type: 'endpoints', ip_policy_ids: [await policyWith(admin)] })
  const restricted = { restrictionId: toUuid(id), sourceIp: '192.0.2.1', lastApiKeyId: null, lastAt: Date.now() }
  await addEdgeCounts(plane.db, [
    atEdge(edge, { count: 4 }),
    atEdge(edge, { count: 5, byModule: false }),
    atEdge(edge, { sourceIp: '2001:db8::1', outcome: 'warned', byModule: false }),
    atEdge(quiet, { count: 100, hour: thisHour() - 30 * hourMs }),
    atEdge(route, { count: 7 }),
  ])
  await addEdgeCounts(plane.db, [atEdge(route)])
  // What a restriction did at an edge comes under both names, and must be counted once.
  await addCounts(plane.db, [
    { ...restricted, outcome: 'refused', hour: thisHour(), count: 5 },
    { ...restricted, outcome: 'warned', hour: thisHour(), count: 1 },
  ])
  const { total, edges } = await activity(admin)
  assert.deepEqual(total.endpoints, { refused: 4 + 5 + 8, warned: 1 })
  const [first, second] = edges.map(({ last_at, ...shown }: { last_at: string }) => shown)
  assert.deepEqual(first, {
    target: { id: edge.id, uri: edge.uri },
    edge: null,
    refused: 9,
    refused_by_module: 4,
    warned: 1,
  })
  assert.deepEqual(second.target, { id: route.id, uri: route.uri })
  assert.equal(second.edge.id, route.edge_id)
  assert.equal(second.refused, 8)
  assert.equal(edges.length, 2)

  const wide = await activity(admin, '?hours=48')
  assert.equal(wide.hours.length, 48)
  assert.equal(wide.edges[0].target.id, quiet.id)
  assert.equal((await admin('GET', '/ip_activity?hours=721')).status, 400)

  // Addresses are personal data, and what is deleted takes its counts along.
  await deleteEdgeCountsBefore(plane.db, thisHour())
  await admin('DELETE', edge.uri)
  assert.deepEqual(
    (await activity(admin, '?hours=48')).edges.map(({ target }: { target: { id: string } }) => target.id),
    [route.id],
  )
})

test('an edge can be deleted while counts of it are being written, and neither fails', async () => {
  const admin = await plane.newAccount()
  for (let round = 0; round < 10; round++) {
    const edge = await newTcpEdge(admin)
    const counts = Array.from({ length: 1_000 }, (_, i) => atEdge(edge, { sourceIp: `10.0.${i >> 8}.${i & 255}` }))
    await addEdgeCounts(plane.db, counts.slice(0, 500))
    const [deleted] = await Promise.all([
      pause(round).then(() => admin('DELETE', edge.uri)),
      addEdgeCounts(plane.db, counts),
    ])
    assert.equal(deleted.status, 204, deleted.text)
  }
})

test('what a node sends twice is added once, and a change that deletes its edge and then its restriction does not deadlock', async () => {
  const admin = await plane.newAccount()
  const edge = await newTcpEdge(admin)
  const { id } = await restrict(admin, { type: 'endpoints', ip_policy_ids: [await policyWith(admin)] })
  const [edgeId, restrictionId] = [toUuid(edge.id as `edgtcp_${string}`), toUuid(id as `ipx_${string}`)]
  const sums = createHitSums(100, () => assert.fail('it has room'))
  const hit = { sourceIp: '192.0.2.1', outcome: 'refused', at: Date.now() } as const
  sums.count({ ...hit, restrictionId, apiKeyId: null }, 3)
  sums.countAtEdge({ ...hit, edgeId, byModule: false }, 3)
  const sender = newUuid()
  const add = () => addReportedHits(plane.db, { node: 'edge-1', sender, batch: 1 }, sums, Date.now())
  let adding: Promise<void> | undefined
  await transaction(plane.db, async (tx) => {
    await run(tx, sql`select from edges where id = ${edgeId} for update`)
    adding = add()
    const waiting = sql`select from pg_stat_activity where wait_event_type = 'Lock' and query like '%from edges%'`
    await poll(async () => (await many(plane.db, waiting)).length > 0)
    await run(tx, sql`select from ip_restrictions where id = ${restrictionId} for update`)
  })
  await adding
  await add()
  const { total, edges } = await activity(admin)
  assert.deepEqual([total.endpoints.refused, edges[0].refused], [3, 3])
})
