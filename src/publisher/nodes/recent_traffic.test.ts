import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Report } from '../../distribution/channels.ts'
import { trafficFigures } from '../../kernel/edge/traffic.ts'
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
    read: (sinceMs: number) => Object.fromEntries(recent.byNode('default', (id) => id === route, start + sinceMs)),
  }
}

test('counts of chosen routes are there by node at once, each batch once, without what nodes were late with', () => {
  const { at, report, batch, read } = newRecent()
  report('edge-1')
  report('edge-2')
  report('old', {})
  at(60_000)
  report('edge-1', batch(1, countsOf(100, 7)))
  report('edge-1', batch(1, countsOf(100, 7)))
  report('edge-1', batch(2, countsOf(1_000), undefined, other))
  report('edge-1', batch(3, countsOf(5_000), start - 600_000))
  assert.deepEqual(read(30_000), { 'edge-1': countsOf(100, 7), 'edge-2': countsOf(0) })
  at(70_000)
  report('edge-1', batch(4, countsOf(1)))
  assert.deepEqual(read(65_000), { 'edge-1': countsOf(1), 'edge-2': countsOf(0) })
  assert.deepEqual(read(0)['edge-1'], countsOf(101, 7))
})

test('what is not known since that moment is unknown, not zero', () => {
  const { at, report, batch, read } = newRecent(2)
  at(20_000)
  report('edge-1')
  assert.deepEqual(read(10_000), {}, 'before the first report')
  assert.deepEqual(read(20_000), { 'edge-1': countsOf(0) })
  report('edge-1', batch(1, countsOf(1)))
  at(40_000)
  report('edge-1', batch(2, countsOf(1)))
  at(60_000)
  report('edge-1', batch(3, countsOf(1)))
  assert.deepEqual(read(20_000), {}, 'no room for so many counts')
  assert.deepEqual(read(40_000), { 'edge-1': countsOf(2) })
  report('edge-1', {})
  assert.deepEqual(read(40_000), {}, 'an agent that does not count')
})
