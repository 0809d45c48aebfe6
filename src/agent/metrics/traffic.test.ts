import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EdgeRequest } from '../../distribution/requests.ts'
import { newId } from '../../kernel/ids.ts'
import { exposition } from './exposition.ts'
import { createTraffic } from './traffic.ts'

const hour = 60 * 60_000
const [account, edge] = [newId('ac'), newId('edghts')]
const request = (changes: Partial<EdgeRequest> = {}): EdgeRequest => ({
  ...{ id: '0198c0de-0000-7000-8000-000000000000', at: '2030-01-01T00:00:00.000Z', node: 'edge-1', account, edge },
  ...{ route: newId('edghtsrt'), source: '192.0.2.1', protocol: 'h2', method: 'GET', host: 'a.example', path: '/' },
  ...{ status: 200, durationMs: 30, bytesIn: 10, bytesOut: 20, upstream: null, outcome: 'allowed', reason: null },
  ...{ restriction: null, policy: null, rule: null, generation: 1, trace: null },
  ...changes,
})
const textOf = (traffic: ReturnType<typeof createTraffic>, now: number) => [...exposition(traffic, now)].join('')

test('requests are counted by route and account, with few buckets for how long they took', () => {
  const traffic = createTraffic(10)
  const route = newId('edghtsrt')
  for (const changes of [
    {},
    { durationMs: 25 },
    { durationMs: 9_000, status: 301 },
    { outcome: 'refused', reason: 'policy', status: 403 },
    { outcome: 'refused', reason: 'restriction', status: 403 },
    { outcome: 'limited', reason: 'edge', status: 503 },
    { outcome: 'failed', reason: 'connect_failed', status: 503 },
    { outcome: 'failed', reason: 'client_closed', status: null },
  ] satisfies Partial<EdgeRequest>[])
    traffic.add(request({ route, ...changes }), 0)
  const text = textOf(traffic, 0)
  const labels = `account="${account}",edge="${edge}",route="${route}"`
  for (const line of [
    '# TYPE gatehouse_edge_route_seconds histogram',
    `gatehouse_edge_route_requests_total{${labels},status="2xx"} 2`,
    `gatehouse_edge_route_requests_total{${labels},status="3xx"} 1`,
    `gatehouse_edge_route_requests_total{${labels},status="4xx"} 2`,
    `gatehouse_edge_route_requests_total{${labels},status="5xx"} 2`,
    `gatehouse_edge_route_requests_total{${labels},status="none"} 1`,
    `gatehouse_edge_route_seconds_bucket{${labels},le="0.025"} 1`,
    `gatehouse_edge_route_seconds_bucket{${labels},le="2.5"} 7`,
    `gatehouse_edge_route_seconds_bucket{${labels},le="+Inf"} 8`,
    `gatehouse_edge_route_seconds_count{${labels}} 8`,
    `gatehouse_edge_route_bytes_total{${labels},direction="out"} 160`,
    `gatehouse_edge_route_refused_total{${labels}} 2`,
    `gatehouse_edge_route_limited_total{${labels}} 1`,
    `gatehouse_edge_route_upstream_errors_total{${labels}} 1`,
    `gatehouse_edge_account_requests_total{account="${account}",status="2xx"} 2`,
    `gatehouse_edge_account_refused_total{account="${account}"} 2`,
  ])
    assert.ok(text.includes(`${line}\n`), line)
  assert.ok(!text.includes('status="1xx"'), 'what never came is left out')
  const series = (of: string) => text.split('\n').filter((line) => line.startsWith(`gatehouse_edge_${of}_`)).length
  assert.ok(series('route') <= 18 && series('account') <= 19, 'as docs/reference/metrics.md says')
})

test('a TCP edge has connections, and no statuses', () => {
  const traffic = createTraffic(10)
  const tcp = newId('edgtcp')
  traffic.add(request({ edge: tcp, route: null, protocol: 'tcp', status: null, durationMs: 5_000_000 }), 0)
  const text = textOf(traffic, 0)
  assert.ok(text.includes(`gatehouse_edge_tcp_connections_total{account="${account}",edge="${tcp}"} 1\n`))
  assert.ok(!text.includes('gatehouse_edge_route_'))
  assert.ok(!text.includes('status='))
})

test('beyond the most, routes are counted with their account, and one account leaves places to others', () => {
  const traffic = createTraffic(100)
  for (let n = 0; n < 500; n++) traffic.add(request(), 0)
  assert.equal(traffic.read(0).routes.length, 50)
  assert.equal(traffic.withoutPlace(), 450)
  for (let n = 0; n < 10; n++)
    for (let each = 0, other = newId('ac'); each < 40; each++) traffic.add(request({ account: other }), 0)
  const { routes, accounts } = traffic.read(0)
  assert.equal(routes.length, 100)
  assert.ok(new Set(routes.map((route) => route.account)).size >= 3)
  assert.deepEqual(
    accounts.map(({ tally }) => tally.statuses[2]),
    [500, ...Array.from({ length: 10 }, () => 40)],
  )
})

test('without any place, accounts still have their totals', () => {
  const traffic = createTraffic(0)
  traffic.add(request(), 0)
  assert.deepEqual([traffic.read(0).routes.length, traffic.read(0).accounts.length, traffic.withoutPlace()], [0, 1, 1])
})

test('what has been idle for an hour is no longer exported, and its place is free', () => {
  const traffic = createTraffic(4)
  const busy = newId('edghtsrt')
  for (let n = 0; n < 4; n++) traffic.add(request({ account: newId('ac') }), hour)
  traffic.add(request({ route: busy }), hour + 1)
  assert.equal(traffic.read(hour + 1).routes.length, 4)
  traffic.add(request({ route: busy }), 2 * hour + 2)
  const { routes, accounts } = traffic.read(2 * hour + 2)
  assert.deepEqual([routes.map(({ route }) => route), accounts.length], [[busy], 1])
})
