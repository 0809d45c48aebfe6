import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Client } from '../../../test/harness/client.ts'
import { type Account, startControlPlane } from '../../../test/harness/control_plane.ts'
import { make, newRoute, newTcpEdge } from '../../../test/harness/fixtures.ts'
import { one, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { ReportedTraffic, TrafficCount } from '../../distribution/traffic_report.ts'
import { latencyBucket, noTraffic, type TrafficFigure, trafficFigures } from '../../kernel/edge/traffic.ts'
import { newId, newUuid, toUuid } from '../../kernel/ids.ts'
import { deleteOldTraffic, keepTraffic } from './keep.ts'

const plane = await startControlPlane({ after })
const [minuteMs, hourMs] = [60_000, 60 * 60_000]
const thisMinute = () => Math.floor(Date.now() / minuteMs) * minuteMs
const sender = newUuid()
let batches = 0
const report = (counts: TrafficCount[], fields: Partial<ReportedTraffic> = {}): ReportedTraffic => ({
  ...{ sender, batch: ++batches, lost: 0, counts },
  ...fields,
})
const keep = (traffic: ReportedTraffic, { node = 'edge-1', most }: { node?: string; most?: number } = {}) =>
  keepTraffic(plane.db, node, traffic, Date.now(), most)

type Place = { edge: string | null; route?: string | null; backend?: string | null; minute?: number }
function counted(
  { accountId }: Account,
  { edge, route = null, backend = null, minute = thisMinute() }: Place,
  figures: Partial<Record<TrafficFigure, number>>,
  latencies: Record<number, number> = {},
): TrafficCount {
  const counts = noTraffic()
  for (const [figure, count] of Object.entries(figures)) counts[trafficFigures.indexOf(figure as TrafficFigure)] = count
  const pairs = Object.entries(latencies).map(([ms, count]) => [latencyBucket(Number(ms)), count] as const)
  return { account: accountId, edge, route, backend, minute, counts, latencies: pairs.sort(([a], [b]) => a - b).flat() }
}
const read = async (as: Client, query = '') => {
  const { status, body, text } = await as('GET', `/traffic_statistics${query}`)
  assert.equal(status, 200, text)
  return body
}
const noErrors = { backend_5xx: 0, unreachable: 0, no_response: 0, timeout: 0, edge: 0, client: 0 }

test('requests, refusals, errors and latencies are shown for the account, and by edge, route, backend and node', async () => {
  const admin = await plane.newAccount()
  const [route, tcp] = [await newRoute(admin), await newTcpEdge(admin)]
  const backend = await make(admin, '/backends/static', { address: '192.0.2.7:80' })
  const at = { edge: route.edge_id, route: route.id, backend: backend.id }
  await keep(report([counted(admin, at, { requests: 100, backend_5xx: 3, refused: 2 }, { 10: 90, 1000: 8 })]))
  await keep(report([counted(admin, at, { requests: 10, timeout: 1 }, { 10: 5, 30000: 5 })]), { node: 'edge-2' })
  await keep(report([counted(admin, { edge: tcp.id }, { requests: 4, unreachable: 1 })]))

  const { groups, ...about } = await read(admin)
  assert.deepEqual(
    groups.map(({ sums }: { sums: object }) => sums),
    [
      {
        ...{ requests: 114, refused: 2, limited: 0 },
        errors: { ...noErrors, backend_5xx: 3, unreachable: 1, timeout: 1 },
        latency_ms: { p50: 10, p95: 1_001.95, p99: 30_047.85 },
      },
    ].map((sums) => ({ ...sums, latency_ms: groups[0].sums.latency_ms })),
  )
  const { p50, p95, p99 } = groups[0].sums.latency_ms
  for (const [found, exact] of [
    [p50, 10],
    [p95, 1_000],
    [p99, 30_000],
  ])
    assert.ok(Math.abs(found - exact) <= exact * 0.02, `${found}, not ${exact}`)
  assert.deepEqual([about.groups_total, about.nodes_not_counting, about.nodes_with_losses], [1, 0, 0])
  assert.deepEqual(groups[0].points, [])

  const by = async (what: string, more = '') =>
    (await read(admin, `?by=${what}${more}`)).groups.map(
      ({ sums, points: _, ...place }: { sums: { requests: number }; points: [] }) => [place, sums.requests],
    )
  assert.deepEqual(await by('edge'), [
    [{ edge_id: route.edge_id }, 110],
    [{ edge_id: tcp.id }, 4],
  ])
  assert.deepEqual(await by('route'), [
    [{ edge_id: route.edge_id, route_id: route.id }, 110],
    [{ edge_id: tcp.id, route_id: null }, 4],
  ])
  assert.deepEqual(await by('backend'), [
    [{ backend_id: backend.id }, 110],
    [{ backend_id: null }, 4],
  ])
  assert.deepEqual(await by('node', `&route_id=${route.id}`), [
    [{ node: 'edge-1' }, 100],
    [{ node: 'edge-2' }, 10],
  ])
  assert.deepEqual(await by('account', `&edge_id=${tcp.id}`), [[{}, 4]])
  assert.deepEqual(await by('account', `&backend_id=${backend.id}&node=edge-2`), [[{}, 10]])
  assert.deepEqual((await read(await plane.newAccount())).groups, [])

  // What is deleted had its traffic all the same.
  await admin('DELETE', tcp.uri)
  assert.deepEqual((await by('edge'))[1], [{ edge_id: tcp.id }, 4])
})

test('traffic is shown by minute for a day, and by hour and day for longer', async () => {
  const admin = await plane.newAccount()
  const route = await newRoute(admin)
  const at = { edge: route.edge_id, route: route.id }
  const [now, yesterday] = [thisMinute(), thisMinute() - 30 * hourMs]
  await keep(
    report([
      counted(admin, at, { requests: 1 }, { 5: 1 }),
      counted(admin, { ...at, minute: now - minuteMs }, { requests: 2 }, { 7: 2 }),
      counted(admin, { ...at, minute: yesterday }, { requests: 4 }),
    ]),
  )
  const points = async (query: string) =>
    (await read(admin, `?${query}`)).groups[0].points.map(
      ({ at: moment, requests, latency_ms }: { at: string; requests: number; latency_ms: { p99: number } | null }) => [
        Date.parse(moment),
        requests,
        latency_ms?.p99,
      ],
    )
  assert.deepEqual(await points('step=minute'), [
    [now - minuteMs, 2, 7],
    [now, 1, 5],
  ])
  const since = new Date(now - 48 * hourMs).toISOString()
  const hours = await points(`step=hour&since=${since}`)
  assert.equal(hours[0][0], yesterday - (yesterday % hourMs))
  assert.equal(
    hours.reduce((sum: number, [, requests]: [number, number]) => sum + requests, 0),
    7,
  )
  const days = await points(`step=day&since=${since}`)
  assert.equal(
    days.reduce((sum: number, [, requests]: [number, number]) => sum + requests, 0),
    7,
  )
  for (const [moment] of days) assert.equal(moment % (24 * hourMs), 0)
  assert.equal((await read(admin, `?since=${since}`)).groups[0].sums.requests, 7)

  for (const [query, field] of [
    [`step=minute&since=${since}`, 'step'],
    ['step=minute&limit=100', 'step'],
    [`since=${new Date(now + hourMs).toISOString()}`, 'since'],
    ['by=country', 'by'],
    ['node=UPPER', 'node'],
  ]) {
    const { status, body } = await admin('GET', `/traffic_statistics?${query}`)
    assert.deepEqual([status, body.details?.field], [400, field], query)
  }
})

test('a batch that comes again counts once, even if another came in between', async () => {
  const admin = await plane.newAccount()
  const route = await newRoute(admin)
  const at = { edge: route.edge_id, route: route.id }
  const [first, second] = [report([counted(admin, at, { requests: 5 })]), report([counted(admin, at, { requests: 7 })])]
  await Promise.all([keep(first), keep(first), keep(first)])
  await keep(second)
  await Promise.all([keep(first), keep(second)])
  assert.equal((await read(admin)).groups[0].sums.requests, 12)
  // An agent without its notes begins at one again, under another name.
  await keep(report([counted(admin, at, { requests: 1 })], { sender: newUuid(), batch: 1 }))
  assert.equal((await read(admin)).groups[0].sums.requests, 13)
})

test("edges, routes and backends of another account get no numbers, and what does not exist is the account's alone", async () => {
  const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
  const [own, foreign] = [await newRoute(admin), await newRoute(other)]
  const foreignBackend = await make(other, '/backends/static', { address: '192.0.2.7:80' })
  await keep(
    report([
      counted(admin, { edge: foreign.edge_id, route: foreign.id }, { requests: 1 }),
      counted(admin, { edge: foreign.edge_id, route: own.id }, { requests: 2 }),
      counted(admin, { edge: own.edge_id, route: newId('edghtsrt') }, { requests: 4 }),
      counted(admin, { edge: own.edge_id, route: own.id, backend: foreignBackend.id }, { requests: 8 }),
      counted({ ...admin, accountId: newId('ac') } as Account, { edge: null }, { requests: 16 }),
    ]),
  )
  assert.deepEqual((await read(other)).groups, [])
  const { groups } = await read(admin, '?by=route')
  assert.deepEqual(
    groups.map(({ edge_id, route_id, sums }: { edge_id: string; route_id: string; sums: { requests: number } }) => [
      edge_id,
      route_id,
      sums.requests,
    ]),
    [
      [own.edge_id, own.id, 8],
      [null, null, 7],
    ],
  )
  assert.equal((await read(admin, `?backend_id=${foreignBackend.id}`)).groups.length, 0)
})

test('an account has a bounded number of rows for an hour; beyond it, only the account is counted, exactly', async () => {
  const admin = await plane.newAccount()
  const routes: Awaited<ReturnType<typeof newRoute>>[] = []
  for (let index = 0; index < 6; index++) routes.push(await newRoute(admin))
  const all = () => routes.map(({ edge_id: edge, id: route }) => counted(admin, { edge, route }, { requests: 1 }))
  const rows = async () =>
    (
      await one<{ count: number }>(
        plane.db,
        sql`select count(*) from traffic_hours where account_id = ${toUuid(admin.accountId as `ac_${string}`)}`,
      )
    ).count
  await keep(report(all().slice(0, 2)), { most: 4 })
  await keep(report(all()), { most: 4 })
  await keep(report(all()), { most: 4 })
  const { groups } = await read(admin, '?by=route')
  assert.deepEqual(
    groups.map(({ sums }: { sums: { requests: number } }) => sums.requests).sort(),
    [2, 2, 3, 3, 4].sort(),
    'those that have a row keep it',
  )
  assert.equal(await rows(), 5)
  // Another node, with names of routes that the first one has: the bound is the account's.
  await keep(report(all()), { node: 'edge-2', most: 4 })
  assert.equal(await rows(), 6)
  assert.equal((await read(admin)).groups[0].sums.requests, 20)
})

test('minutes are deleted after a day, hours after 90 days, and a node that was cut off counts its old hours', async () => {
  const admin = await plane.newAccount()
  const at = { edge: (await newTcpEdge(admin)).id }
  const rows = () =>
    one<{ minutes: number; hours: number }>(
      plane.db,
      sql`
      select (select count(*) from traffic_minutes where account_id = ${toUuid(admin.accountId as `ac_${string}`)}) as minutes,
        (select count(*) from traffic_hours where account_id = ${toUuid(admin.accountId as `ac_${string}`)}) as hours`,
    )
  await keep(
    report([
      counted(admin, at, { requests: 1 }),
      counted(admin, { ...at, minute: thisMinute() - 3 * 24 * hourMs }, { requests: 1 }),
    ]),
  )
  assert.deepEqual(await rows(), { minutes: 1, hours: 2 })
  await deleteOldTraffic(plane.db, Date.now() + 26 * hourMs)
  assert.deepEqual(await rows(), { minutes: 0, hours: 2 })
  await deleteOldTraffic(plane.db, Date.now() + 88 * 24 * hourMs)
  assert.deepEqual(await rows(), { minutes: 0, hours: 1 })
})

test('sums of many counts stay exact when several nodes write at once', async () => {
  const admin = await plane.newAccount()
  const route = await newRoute(admin)
  const at = { edge: route.edge_id, route: route.id }
  const rounds = 20
  await Promise.all(
    ['edge-1', 'edge-2', 'edge-3'].map(async (node) => {
      const its = newUuid()
      for (let batch = 1; batch <= rounds; batch++) {
        const counts = [counted(admin, at, { requests: 10, client: 1 }, { 3: 4, 400: 6 })]
        await keepTraffic(plane.db, node, { sender: its, batch, lost: 0, counts }, Date.now())
      }
    }),
  )
  const { sums } = (await read(admin)).groups[0]
  assert.deepEqual([sums.requests, sums.errors.client], [rounds * 30, rounds * 3])
  await run(plane.db, sql`analyze traffic_minutes`)
  assert.ok(Math.abs(sums.latency_ms.p50 - 400) <= 8)
})
