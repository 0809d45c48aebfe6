// Bad changes, what the nodes of the first wave say of them, and that they go no further.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { freePort } from '../../dev/ports.ts'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { one } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { make } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { startApplications, startVisitors } from './honest_traffic.ts'
import { startTwoWaves, type Tenant } from './two_waves.ts'

const file = { after: (cleanUp: () => Promise<void>) => after(cleanUp) }
const soakMs = 15_000
const waves = await startTwoWaves(file, soakMs)
const { fleet, newTenant, status, answers, settled, halted } = waves
// Before there are waves, so that nothing is watched yet.
const canary = await waves.startNode('edge-canary', 0)
const tenants = await Promise.all(
  ['alice', 'bob', 'carol', 'dora', 'erin', 'frank'].map((name) => newTenant(`${name}.example`)),
)
const [alice, bob, carol, dora, erin, frank] = tenants as [Tenant, Tenant, Tenant, Tenant, Tenant, Tenant]
// A mistake that was taken back does not let the same mistake pass later.
await alice.rule('deny', '127.0.0.0/30')
const { body: mistaken } = await alice.client('GET', `/ip_policies/${alice.policy.id}/rules`)
for (const { id, cidr } of mistaken.rules)
  if (cidr === '127.0.0.0/30') assert.equal((await alice.client('DELETE', `/ip_policy_rules/${id}`)).status, 204)
const later = await waves.startNode('edge-later', 1)
for (const tenant of tenants) await answers(later, tenant, 200)

const clients = Array.from({ length: 6 }, (_, n) => `127.0.0.${n + 1}`)
const all = (node: typeof canary, tenant: Tenant, from = clients) =>
  Promise.all(from.map((address) => status(node, tenant, address)))
const letIn = async ({ client }: Tenant) =>
  (
    await one<{ count: number }>(
      fleet.db,
      sql`select count(*) from address_outcomes where account_id = ${toUuid(client.accountId as Id)} and type = 'endpoints'`,
    )
  ).count

const counted = async ({ client }: Tenant) =>
  (
    await one<{ requests: number }>(
      fleet.db,
      sql`select coalesce(sum(requests), 0)::int as requests from traffic_minutes where account_id = ${toUuid(client.accountId as Id)}`,
    )
  ).requests

test('a change that refuses who was let in before is halted, named, and taken back; one address alone is not missed', async () => {
  await all(canary, alice)
  await poll(
    () => letIn(alice),
    (count) => count === clients.length,
  )
  await alice.rule('deny', '127.0.0.6/32')
  await answers(canary, alice, 200)
  await poll(
    () => status(canary, alice, '127.0.0.6'),
    (found) => found === 403,
  )
  await all(canary, alice)
  await settled(alice)

  await alice.rule('deny', '127.0.0.0/31')
  await alice.rule('deny', '127.0.0.2/31')
  const bobs = bob.rule('deny', '127.0.0.9/32')
  await answers(canary, alice, 403)
  const first = performance.now()
  await all(canary, alice)
  const [rollout] = await Promise.all([halted(alice), bobs])
  const took = performance.now() - first
  await answers(canary, alice, 200)
  assert.ok(took < 10_000, `${took} ms`)
  const [evidence] = rollout?.evidence ?? []
  assert.equal(evidence?.signal, 'addresses')
  assert.equal(evidence?.target, alice.route.id)
  assert.deepEqual(evidence?.addresses, ['127.0.0.1', '127.0.0.2', '127.0.0.3'])
  assert.deepEqual(await all(later, alice), [200, 200, 200, 200, 200, 403])
  // The change of another account goes on.
  await settled(bob)
})

test('a backend that does not answer halts its change, with the requests that failed before and since', async () => {
  for (let n = 0; n < 10; n++) await all(canary, carol, ['127.0.0.1'])
  await poll(async () => (await all(later, carol)).every((found) => found === 200))
  await poll(
    () => counted(carol),
    (requests) => requests >= 10,
  )
  const broken = await make(carol.client, '/backends/static', { address: `127.0.0.1:${await freePort()}` })
  await carol.client('PATCH', carol.route.uri, { backend: { backend_id: broken.id } })
  await answers(canary, carol, 503)
  const first = performance.now()
  for (let n = 0; n < 10; n++) await all(canary, carol, ['127.0.0.1'])
  const rollout = await halted(carol)
  const took = performance.now() - first
  await answers(canary, carol, 200)
  assert.ok(took < 12_000, `${took} ms`)
  const evidence = rollout?.evidence?.find(({ target }) => target === carol.route.id)
  assert.equal(evidence?.signal, 'answers')
  assert.equal(evidence?.before?.failed, 0)
  assert.ok((evidence?.since?.failed ?? 0) >= 5, JSON.stringify(evidence))
  assert.equal(await status(later, carol), 200)
})

test('an application that knows no page, and one for which clients stop waiting, halt their changes', async () => {
  const apps = await startApplications(file)
  const broken = [
    { tenant: erin, port: apps.unknowing, sentence: /answered with 4xx/ },
    { tenant: frank, port: apps.hanging, sentence: /requests for \S+ failed/ },
  ]
  await Promise.all(
    broken.map(async ({ tenant, port, sentence }) => {
      for (let n = 0; n < 10; n++) await all(canary, tenant, Array(8).fill('127.0.0.1'))
      await poll(
        () => counted(tenant),
        (requests) => requests >= 80,
      )
      const backend = await make(tenant.client, '/backends/static', { address: `127.0.0.1:${port}` })
      const stop = startVisitors([canary], { host: tenant.host, patienceMs: 1_200 }, [])
      await tenant.client('PATCH', tenant.route.uri, { backend: { backend_id: backend.id } })
      const rollout = await halted(tenant)
      await stop()
      const evidence = rollout?.evidence?.find(({ target }) => target === tenant.route.id)
      assert.equal(evidence?.signal, 'answers')
      assert.match(`${evidence?.reason}`, sentence)
      await answers(canary, tenant, 200)
      assert.equal(await status(later, tenant), 200)
    }),
  )
})

test('HAProxy that ends halts what is watched on its node', async () => {
  await dora.rule('deny', '127.0.0.76/31')
  const [worker] = /^\d+(?=\s+worker)/m.exec(await ask(join(canary.folder, 'haproxy/master.sock'), 'show proc')) ?? []
  process.kill(Number(worker), 'SIGKILL')
  const rollout = await halted(dora)
  assert.equal(rollout?.evidence?.[0]?.signal, 'proxy')
  await answers(canary, dora, 200)
  const metrics = await (await fetch(`${fleet.origin}/metrics`)).text()
  for (const [signal, count] of Object.entries({ addresses: 1, answers: 3, proxy: 1 }))
    assert.match(metrics, new RegExp(`gatehouse_rollout_halts_total\\{signal="${signal}"\\} ${count}`))
})
