// A stolen node of one cell writes nothing about the accounts of another: no evidence, no health, no requests.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { createCell } from '../../src/commands/cells/cells.ts'
import { place } from '../../src/commands/cells/placement.ts'
import { one } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { channelsOf, keptRuleHits } from '../../src/distribution/channels.ts'
import { keptTraffic } from '../../src/distribution/traffic_report.ts'
import { hourOf, rfc3339 } from '../../src/kernel/clock.ts'
import { noTraffic } from '../../src/kernel/edge/traffic.ts'
import { newUuid, toUuid } from '../../src/kernel/ids.ts'
import { addSigningKey } from '../../src/publisher/signing_keys.ts'
import { type Account, secretsBox, startControlPlane } from '../harness/control_plane.ts'
import { edgeRequest } from '../harness/edge_requests.ts'
import { make, newTcpEdge } from '../harness/fixtures.ts'
import { policyWith, restrict } from '../harness/ip.ts'
import { connectAsControlPlane } from '../harness/nats.ts'
import { poll } from '../harness/poll.ts'

const nats = await startNats()
after(() => nats.stop())
const plane = await startControlPlane(
  { after },
  {
    env: nats.controlPlane,
    async prepare(db) {
      await createCell(db, { name: 'eu', isDefault: false, confirmed: false })
      await addSigningKey(db, secretsBox)
    },
  },
)
// NATS lets a node send under the name of its own cell; test/fleet shows that. What arrives there is up to the node.
const thief = await connectAsControlPlane({ after }, nats)
const channels = channelsOf('eu')
const uuidOf = ({ accountId }: Account) => toUuid(accountId as `ac_${string}`)

async function newTenant() {
  const account = await plane.newAccount()
  const policy = await policyWith(account)
  const rule = await make(account, '/ip_policy_rules', { ip_policy_id: policy, cidr: '192.0.2.0/24', action: 'allow' })
  const restriction = await restrict(account, { type: 'endpoints', ip_policy_ids: [policy] })
  const backend = await make(account, '/backends/static', { address: '192.0.2.7:80' })
  const edge = await newTcpEdge(account)
  return { account, rule, restriction, backend, edge }
}
type Tenant = Awaited<ReturnType<typeof newTenant>>

/** Everything that a node may say about the account, of both tenants at once. */
async function tellAbout(tenants: readonly Tenant[]): Promise<void> {
  const now = rfc3339(Date.now())
  const seen = { source: '192.0.2.1', lastAt: now }
  const report = {
    ...{ node: 'thief', version: '1', startedAt: now, applied: 0, records: 0, refusals: [] },
    hits: tenants.flatMap(({ edge, restriction }) => [
      { ...seen, restriction: restriction.id, target: edge.id, outcome: 'warned', count: 3 },
      { ...seen, restriction: null, target: edge.id, outcome: 'refused', count: 3 },
    ]),
    allowed: tenants.map(({ edge }) => ({ ...seen, target: edge.id })),
    health: tenants.map(({ backend }) => ({
      ...{ backend: backend.id, address: '192.0.2.7', port: 80, status: 'down', reason: 'it says so', since: now },
    })),
  }
  const day = Date.parse(now.slice(0, 10))
  const ruleHits = tenants.map(({ account: { accountId }, rule }) => ({
    ...{ account: accountId, rule: rule.id, day, allowed: 1, refused: 1, warned: 1, lastAt: Date.now() },
  }))
  const counted = {
    ...report,
    hits: [],
    allowed: [],
    health: [],
    ruleHits: { sender: newUuid(), batch: 1, hits: ruleHits },
  }
  const traffic = tenants.map(({ account: { accountId }, edge }) => ({
    ...{ account: accountId, edge: edge.id, route: null, backend: null, minute: Date.now() - (Date.now() % 60_000) },
    ...{ counts: [1, ...noTraffic().slice(1)], latencies: [] },
  }))
  const passed = { ...counted, ruleHits: undefined, traffic: { sender: newUuid(), batch: 1, lost: 0, counts: traffic } }
  const requests = tenants.map(({ account, edge }) => edgeRequest(account, edge, { node: 'thief', protocol: 'tcp' }))
  const hour = rfc3339(hourOf(Date.now()))
  const dropped = tenants.map(({ account }) => ({ account: account.accountId, hour, count: 5 }))
  const tell = (subject: string, message: object, answer: string) =>
    poll(
      () =>
        thief.request(subject, JSON.stringify(message), { timeout: 1_000 }).then(
          (answered) => answered.string(),
          (error: Error) => error.message,
        ),
      (answered) => answered === answer,
    )
  await tell(channels.reports('thief'), report, 'kept')
  await tell(channels.reports('thief'), counted, keptRuleHits(1))
  await tell(channels.reports('thief'), passed, keptTraffic(1))
  await tell(channels.requests('thief'), { node: 'thief', batch: newUuid(), requests, dropped }, 'kept')
}

/** How many rows there are about the account, by what they are. */
const written = ({ account, edge }: Tenant) =>
  one<Record<string, number>>(
    plane.db,
    sql`
    select (select count(*) from ip_restriction_counts where account_id = ${uuidOf(account)}) as restrictions,
      (select count(*) from edge_counts where account_id = ${uuidOf(account)}) as edges,
      (select count(*) from address_outcomes where account_id = ${uuidOf(account)} and target_id = ${toUuid(edge.id)}) as outcomes,
      (select count(*) from ip_rule_hits where account_id = ${uuidOf(account)}) as rules,
      (select count(*) from traffic_hours where account_id = ${uuidOf(account)}) as traffic,
      (select count(*) from backend_health where account_id = ${uuidOf(account)}) as health,
      (select count(*) from edge_requests where account_id = ${uuidOf(account)}) as requests,
      (select count(*) from edge_request_counts where account_id = ${uuidOf(account)}) as request_counts`,
  )

test('what a node says is written about the accounts of its cell, and about no others', async () => {
  const [own, other] = [await newTenant(), await newTenant()]
  await place(plane.db, { id: uuidOf(own.account), name: 'it' }, ['eu'], false)
  await tellAbout([other, own])
  const about = await poll(
    () => written(own),
    (counts) => Object.values(counts).every((count) => count > 0),
  )
  // All of it came in the same messages, and each kind is written at once.
  const aboutOther = await written(other)
  assert.deepEqual(aboutOther, Object.fromEntries(Object.keys(about).map((kind) => [kind, 0])))
  const [{ log = [], origin = '' } = {}] = plane.processes
  assert.equal(log.filter(({ msg }) => msg.includes('accounts that are not placed in its cell')).length, 1)
  const metrics = await (await fetch(`${origin}/metrics`)).text()
  assert.ok(Number(/^gatehouse_edge_report_parts_dropped_total (\d+)$/m.exec(metrics)?.[1]) >= 4, 'counted')
})
