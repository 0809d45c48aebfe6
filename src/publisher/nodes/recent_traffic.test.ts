import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Report } from '../../distribution/channels.ts'
import { figureOf, trafficFigures } from '../../kernel/edge/traffic.ts'
import { newId, newUuid } from '../../kernel/ids.ts'
import { createRecentTraffic } from './recent_traffic.ts'

const start = Date.UTC(2030, 0, 1)
const [account, edge, route, other] = [newId('ac'), newId('edghts'), newId('edghtsrt'), newId('edghtsrt')]
const countsOf = (requests: number, errors = 0) =>
  trafficFigures.map((figure) => ({ requests, backend_5xx: errors })[figure as 'requests'] ?? 0)

function newRecent(most?: number) {
  let now = start
  const recent = createRecentTraffic(() => now, most)
  const sender = newUuid()
  const common = { version: '1', startedAt: '', applied: 0, records: 0, refusals: [], hits: [] }
  return {
    recent,
    at(ms: number): void {
      now = start + ms
    },
    report: (node: string, fields: Partial<Report> = { countsTraffic: true }) =>
      recent.add({ node, ...common, ...fields }, 'default'),
    batch: (batch: number, counts: number[], minute = now - (now % 60_000), target = route): Partial<Report> => ({
      countsTraffic: true,
      traffic: {
        ...{ sender, batch, lost: 0 },
        counts: [{ account, edge, route: target, backend: null, minute, counts, latencies: [] }],
      },
    }),
    read: (sinceMs = 0) =>
      recent
        .ofAccount('default', account)
        .filter(({ at, route: where }) => where === route && at >= start + sinceMs)
        .map(({ node, counts }) => [node, counts[0], counts[trafficFigures.indexOf('backend_5xx')]]),
  }
}

test('counts of an account are there by node and route at once, each batch once, without what nodes were late with', () => {
  const { recent, at, report, batch, read } = newRecent()
  report('edge-1')
  report('edge-2')
  report('old', {})
  at(60_000)
  report('edge-1', batch(1, countsOf(100, 7)))
  report('edge-1', batch(1, countsOf(100, 7)))
  report('edge-1', batch(2, countsOf(1_000), undefined, other))
  report('edge-1', batch(3, countsOf(5_000), start - 600_000))
  assert.deepEqual(read(), [['edge-1', 100, 7]])
  at(70_000)
  report('edge-1', batch(4, countsOf(1)))
  assert.deepEqual(read(65_000), [['edge-1', 1, 0]])
  assert.deepEqual(recent.ofAccount('default', newId('ac')), [])
  assert.deepEqual(recent.ofAccount('eu', account), [])
})

test('what has no route is there for the account, and what is counted besides is there with the rest', () => {
  const { recent, at, report, batch } = newRecent()
  at(60_000)
  const { traffic } = batch(1, countsOf(10))
  const [count] = traffic?.counts ?? []
  assert.ok(traffic && count)
  const nowhere = { ...count, edge: null, route: null }
  report('edge-1', { countsTraffic: true, traffic: { ...traffic, counts: [{ ...count, judged: [3, 2] }, nowhere] } })
  const [routed, rest] = recent.ofAccount('default', account)
  assert.deepEqual(
    [routed, rest].map((each) => [each?.edge, each?.route]),
    [
      [edge, route],
      [null, null],
    ],
  )
  assert.deepEqual(
    (['requests', 'rejected', 'abandoned'] as const).map((figure) => figureOf(routed?.counts ?? [], figure)),
    [10, 3, 2],
  )
})

test('it is known since when each node is heard of, and the oldest counts give way to new ones', () => {
  const { recent, at, report, batch, read } = newRecent(2)
  at(20_000)
  report('edge-1')
  report('edge-1', batch(1, countsOf(1)))
  at(40_000)
  report('edge-1', batch(2, countsOf(2)))
  at(60_000)
  report('edge-1', batch(3, countsOf(3)))
  assert.deepEqual(read(), [
    ['edge-1', 2, 0],
    ['edge-1', 3, 0],
  ])
  assert.equal(recent.heardSince('default', 'edge-1'), start + 20_000)
  report('edge-1', {})
  assert.equal(recent.heardSince('default', 'edge-1'), undefined, 'an agent that does not count')
})
