// A node that has much to tell, and a NATS server that accepts 64 KiB at once.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { createAllowed } from '../../src/agent/reports/allowed.ts'
import { createHealth } from '../../src/agent/reports/health.ts'
import { createHits } from '../../src/agent/reports/hits.ts'
import { createReporter } from '../../src/agent/reports/reporter.ts'
import { createRuleHits } from '../../src/agent/reports/rule_hits.ts'
import { createTrafficCounts } from '../../src/agent/reports/traffic_counts.ts'
import { defaultChannels, keptRuleHits, type Report } from '../../src/distribution/channels.ts'
import { keptTraffic } from '../../src/distribution/traffic_report.ts'
import { newId } from '../../src/kernel/ids.ts'
import { edgeRequest } from '../harness/edge_requests.ts'
import { connectAsControlPlane } from '../harness/nats.ts'
import { poll } from '../harness/poll.ts'

const maxPayload = 64 * 1024
const nats = await startNats({ maxPayload })
after(() => nats.stop())
const connection = await connectAsControlPlane({ after }, nats)

const count = 3_000
const now = new Date().toISOString()
const [account, target, restriction] = [newId('ac'), newId('edghtsrt'), newId('ipx')]
const addressOf = (index: number) => `2001:db8:1234:5678:9abc:def0:0:${(index + 1).toString(16)}`

function nodeWithMuchToTell() {
  const [hits, allowed, health, ruleHits] = [createHits(), createAllowed(), createHealth(), createRuleHits()]
  const traffic = createTrafficCounts()
  const request = { outcome: 'allowed', account, route: target, edge: null } as const
  for (let index = 0; index < count; index++) {
    const source = addressOf(index)
    hits.add({ restriction, target, source, outcome: 'refused', count: 1, lastAt: now })
    allowed.note({ ...request, source } as Parameters<typeof allowed.note>[0], Date.now())
    ruleHits.count(account, newId('ipr'), 'refused', 1, Date.now())
    const ended = edgeRequest({ accountId: account }, { id: newId('edghts') }, { route: newId('edghtsrt') })
    const line = { isEnd: true, backend: null, sequence: 1, process: 1, warnedBy: [], failure: undefined }
    traffic.add({ request: ended, ...line }, Date.now())
  }
  for (let index = 0; index < 400; index++)
    health.observe({
      backend: newId('bkdst'),
      address: '192.0.2.1',
      port: 80,
      status: 'down',
      reason: 'x'.repeat(200),
      at: Date.now(),
    })
  return { hits, allowed, health, ruleHits, traffic }
}

/** As long as they can be: what the node refused. */
const refusals = Array.from({ length: 40 }, () => ({
  key: `route.${newId('edghtsrt')}`,
  generation: 1,
  reason: 'y'.repeat(2_000),
  at: now,
}))

test('a node whose counts were not taken for a while stays alive, and delivers all of them in messages that fit', async (t) => {
  const warnings: string[] = []
  const log = { warn: (_: object, message: string) => warnings.push(message), info() {}, error() {} }
  const state = () => ({ node: 'edge-1', version: '0', startedAt: now, applied: 1, records: 0, refusals })
  const reporter = createReporter(connection, defaultChannels, nodeWithMuchToTell(), state, log)
  t.after(() => reporter.stop())
  let [alive, hits, allowed, rules, routes, isAnswering] = [0, 0, 0, 0, 0, false]
  connection.subscribe(defaultChannels.reports('edge-1'), {
    callback(_, message) {
      assert.ok(message.data.length <= maxPayload)
      const report: Report = JSON.parse(message.string())
      if (!message.reply) alive++
      if (!isAnswering || !message.reply) return
      hits += report.hits.length
      allowed += report.allowed?.length ?? 0
      rules += report.ruleHits?.hits.length ?? 0
      routes += report.traffic?.counts.length ?? 0
      if (report.traffic) return void message.respond(keptTraffic(report.traffic.batch))
      message.respond(report.ruleHits ? keptRuleHits(report.ruleHits.batch) : 'kept')
    },
  })
  await poll(() => warnings.length > 0 && alive >= 3)
  isAnswering = true
  await poll(() => hits === count && allowed === count && rules === count && routes === count)
  const before = alive
  await poll(() => alive > before)
})
