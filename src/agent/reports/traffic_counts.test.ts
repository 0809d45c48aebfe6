import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { EdgeRequest } from '../../distribution/requests.ts'
import { type ReportedTraffic, readTraffic, type TrafficCount } from '../../distribution/traffic_report.ts'
import { figureOf, latencyBucket, trafficFigures } from '../../kernel/edge/traffic.ts'
import { newId } from '../../kernel/ids.ts'
import type { RequestLine } from '../requests/feed.ts'
import { createTrafficCounts, type TrafficCounting } from './traffic_counts.ts'

const minute = Date.UTC(2030, 0, 31, 12, 7)
const [account, edge, route, backend] = [newId('ac'), newId('edghts'), newId('edghtsrt'), newId('bkdst')]
const line = (changes: Partial<EdgeRequest> = {}, of: string | null = backend): RequestLine => ({
  request: {
    ...{
      id: '0198c0de-0000-7000-8000-000000000000',
      at: new Date(minute).toISOString(),
      node: 'edge-1',
      account,
      edge,
    },
    ...{ route, source: '192.0.2.1', protocol: 'h2', method: 'GET', host: 'a.example', path: '/' },
    ...{ status: 200, durationMs: 30, bytesIn: 10, bytesOut: 20, upstream: '192.0.2.9:80', outcome: 'allowed' },
    ...{ reason: null, restriction: null, policy: null, rule: null, generation: 1, trace: null },
    ...changes,
  },
  ...{ isEnd: true, backend: of, sequence: 1, process: 1, warnedBy: [], failure: undefined },
})
const now = minute + 10 * 60_000
const much = 1 << 20

function deliver(traffic: TrafficCounting, maxBytes = much): ReportedTraffic[] {
  const batches: ReportedTraffic[] = []
  for (let next = traffic.next(maxBytes); next; next = traffic.next(maxBytes)) {
    batches.push(next)
    traffic.confirm(next.batch)
  }
  return batches
}
const requestsIn = (batches: readonly ReportedTraffic[]): number =>
  batches.flatMap(({ counts }) => counts).reduce((sum, { counts }) => sum + figureOf(counts, 'requests'), 0)
const shown = ({ counts }: TrafficCount) =>
  Object.fromEntries(trafficFigures.map((figure, index) => [figure, counts[index]]).filter(([, count]) => count !== 0))

test('what ends is counted by minute, route and backend: errors by kind, and latencies of what was answered', () => {
  const traffic = createTrafficCounts()
  for (const changes of [
    {},
    { durationMs: 70_000 },
    { status: 101, durationMs: 5 },
    { status: 503 },
    { status: 503, upstream: null },
    { outcome: 'refused', reason: 'policy', status: 403 },
    { outcome: 'limited', reason: 'edge', status: 503 },
    { outcome: 'warned', reason: 'policy', status: 500 },
    { outcome: 'failed', reason: 'connect_timeout', status: 503 },
    { outcome: 'failed', reason: 'response_cut' },
    { outcome: 'failed', reason: 'response_timeout', status: 504 },
    { outcome: 'failed', reason: 'no_backend', status: 503 },
    { outcome: 'failed', reason: 'client_closed', status: null },
    { account: null, edge: null, route: null },
  ] satisfies Partial<EdgeRequest>[])
    traffic.add(line(changes), now)
  const [first, later, ...rest] = deliver(traffic).flatMap(({ counts }) => counts)
  assert.ok(first && later)
  assert.deepEqual(rest, [])
  const at = { account, edge, route, backend }
  assert.deepEqual(
    [first, later].map(({ counts: _, latencies: __, ...place }) => place),
    [
      { ...at, minute },
      { ...at, minute: minute + 60_000 },
    ],
  )
  assert.deepEqual(shown(first), {
    ...{ requests: 12, refused: 1, limited: 1, backend_5xx: 2, unreachable: 1, no_response: 1, timeout: 1 },
    ...{ edge: 1, client: 1 },
  })
  assert.deepEqual(first.latencies, [latencyBucket(30), 8])
  assert.deepEqual(later.latencies, [latencyBucket(70_000), 1])
})

test('what the application rejects, and what clients give up after a second of waiting for it, is counted besides', () => {
  const traffic = createTrafficCounts()
  const [before, after] = [createTrafficCounts(), createTrafficCounts()]
  const gone = { outcome: 'failed', reason: 'client_closed', status: null, durationMs: 1_000 } as const
  for (const changes of [
    {},
    { status: 404 },
    { status: 404, upstream: null },
    { status: 403, outcome: 'refused', reason: 'policy', upstream: null },
    { status: 429, outcome: 'warned', reason: 'policy' },
    gone,
    { ...gone, durationMs: 999 },
    { ...gone, upstream: null },
  ] satisfies Partial<EdgeRequest>[])
    traffic.add(line(changes), now)
  const [sent] = deliver(traffic)
  assert.deepEqual(sent?.counts[0]?.judged, [2, 1])
  assert.equal(figureOf(sent?.counts[0]?.counts ?? [], 'client'), 3)
  assert.deepEqual(readTraffic(JSON.parse(JSON.stringify(sent)), now), { read: sent, dropped: 0 })
  before.add(line(), now)
  assert.equal(deliver(before)[0]?.counts[0]?.judged, undefined)
  // As what did not fit into a message, and comes back.
  for (const route of [null, newId('edghtsrt')]) after.add(line({ status: 404, ...(route && { route }) }), now)
  after.next(much)
  after.next(600)
  assert.deepEqual(
    deliver(after).flatMap(({ counts }) => counts.map(({ judged }) => judged)),
    [
      [1, 0],
      [1, 0],
    ],
  )
})

test('TCP connections have no latency, and everything that a node sends can be read', () => {
  const traffic = createTrafficCounts()
  const tcp = newId('edgtcp')
  traffic.add(line({ protocol: 'tcp', edge: tcp, route: null, status: null, upstream: null }), now)
  traffic.add(line({ durationMs: Number.MAX_SAFE_INTEGER }), now)
  traffic.add(line({}, null), now)
  traffic.lose(3)
  const [batch] = deliver(traffic)
  const read = readTraffic(JSON.parse(JSON.stringify(batch)), now)
  assert.deepEqual(read, { read: batch, dropped: 0 })
  assert.equal(batch?.lost, 3)
  assert.deepEqual(batch?.counts.find(({ edge: its }) => its === tcp)?.latencies, [])
})

test('a batch stays the same until it is confirmed, and goes in messages that fit, without a loss', () => {
  const traffic = createTrafficCounts()
  const routes = Array.from({ length: 3_000 }, () => newId('edghtsrt'))
  for (const each of routes) traffic.add(line({ route: each }), now)
  const first = traffic.next(64 * 1_024)
  traffic.add(line({ route: routes[0] ?? null }), now)
  assert.deepEqual(traffic.next(64 * 1_024), first)
  traffic.confirm((first?.batch ?? 0) + 1)
  assert.deepEqual(traffic.next(64 * 1_024), first)
  const batches = deliver(traffic, 64 * 1_024)
  for (const batch of batches) assert.ok(Buffer.byteLength(JSON.stringify(batch)) <= 64 * 1_024)
  assert.equal(requestsIn(batches), 3_001)
  assert.deepEqual(
    batches.map(({ batch }) => batch),
    batches.map((_, index) => index + 1),
  )
})

test('an account with many routes loses details when there is no more room, and nothing else; others keep theirs', () => {
  const traffic = createTrafficCounts({ most: 100 })
  const small = newId('ac')
  traffic.add(line({ account: small }), now)
  for (let index = 0; index < 1_000; index++) traffic.add(line({ route: newId('edghtsrt') }), now)
  traffic.add(line({ account: small }), now)
  const batches = deliver(traffic)
  const counts = batches.flatMap(({ counts: each }) => each)
  assert.ok(counts.length <= 101, `${counts.length} counts`)
  assert.equal(requestsIn(batches), 1_002)
  assert.deepEqual(counts.filter((each) => each.account === small).map(shown), [{ requests: 2 }])
  assert.equal(
    batches.reduce((sum, { lost }) => sum + lost, 0),
    0,
  )
})

test('the next agent goes on where this one ended, with the same number for what may have arrived', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-traffic-'))
  t.after(() => rm(folder, { recursive: true }))
  const file = join(folder, 'traffic_counts.json')
  const before = createTrafficCounts()
  before.add(line(), now)
  const sending = before.next(much)
  before.add(line(), now)
  before.lose(2)
  await before.save(file)
  const after = createTrafficCounts()
  await after.load(file)
  assert.deepEqual(await readdir(folder), [], 'a third agent must not find it again')
  assert.deepEqual(after.next(much), sending)
  const [first, second, ...rest] = deliver(after)
  assert.deepEqual([first?.batch, second?.batch, second?.sender, second?.lost], [1, 2, sending?.sender, 2])
  assert.equal(requestsIn([first, second].filter((each) => each !== undefined)), 2)
  assert.deepEqual(rest, [])
})

test('a stolen node cannot report huge, negative or impossible numbers, or other times and places', () => {
  const traffic = createTrafficCounts()
  traffic.add(line(), now)
  const [batch] = deliver(traffic)
  const honest = batch?.counts[0] as TrafficCount
  const zeros = honest.counts.map(() => 0)
  const wrong: unknown[] = [
    null,
    [],
    ...[newId('usr'), 5].map((value) => ({ ...honest, account: value })),
    ...[null, newId('edgtcp'), 5].map((value) => ({ ...honest, edge: value })),
    ...[null, newId('edgtcp'), {}].map((value) => ({ ...honest, route: value })),
    ...[newId('ac'), '', 0].map((value) => ({ ...honest, backend: value })),
    ...[minute + 1, now + 20 * 60_000, now - 8 * 24 * 60 * 60_000, `${minute}`].map((value) => ({
      ...honest,
      minute: value,
    })),
    ...[zeros, [-1, ...zeros.slice(1)], [1e10, ...zeros.slice(1)], [1, 1, 1, ...zeros.slice(3)], [1], [1.5], 'x'].map(
      (counts) => ({ ...honest, counts }),
    ),
    ...[[1], [1, 1], [-1, 1], [1.5, 0], [0, 0, 0], 'x', null].map((judged) => ({ ...honest, judged })),
    ...[[1], [1, 2], [-1, 1], [999, 1], [5, 1, 5, 0], [5, -1], 'x'].map((latencies) => ({ ...honest, latencies })),
  ]
  const read = readTraffic({ ...batch, counts: [...wrong, honest], lost: -1 }, now)
  assert.deepEqual(read?.read.counts, [honest])
  assert.deepEqual([read?.read.lost, read?.dropped], [0, wrong.length])
  assert.equal(readTraffic({ ...batch, sender: 'x' }, now), undefined)
  const flood = readTraffic({ ...batch, counts: Array(10_000).fill(honest) }, now)
  assert.equal(flood?.read.counts.length, 2_000)
})
