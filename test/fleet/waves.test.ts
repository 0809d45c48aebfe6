// A cell with two waves and a node in each: a change reaches the second after it was watched in the first.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setThresholds } from '../../src/commands/cells/thresholds.ts'
import { apiPrefix, channelsOf } from '../../src/distribution/channels.ts'
import { accountPusher } from '../../src/fleet/nats_accounts.ts'
import { toId, type Uuid } from '../../src/kernel/ids.ts'
import { defaultCell } from '../../src/operations/placement.ts'
import { haltRollout, releaseRollout } from '../../src/operations/rollouts.ts'
import { make } from '../harness/fixtures.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { addNode, connectWith } from './operator_nats.ts'
import { startTwoWaves } from './two_waves.ts'

const file = { after: (cleanUp: () => Promise<void>) => after(cleanUp) }
const soakMs = 2_000
const { fleet, startNode, newTenant, status, answers, open, settled, command } = await startTwoWaves(file, soakMs)
const system = await connectWith(file, fleet.nats, accountPusher(fleet.operator, Date.now()))
const first = await startNode('edge-canary', 0)
const before = await newTenant('before.example')
let second = await startNode('edge-later', 1)

/** Watches nothing to its end meanwhile. */
async function withSoak(seconds: number, work: () => Promise<void>): Promise<void> {
  await setThresholds(fleet.db, defaultCell.name, { soak_seconds: seconds })
  await work().finally(() => setThresholds(fleet.db, defaultCell.name, { soak_seconds: soakMs / 1_000 }))
}

async function withMember(host: string) {
  const tenant = await newTenant(host)
  await settled(tenant)
  const bot = await make(tenant.client, '/bot_users', { name: 'deploys' })
  const { token } = await make(tenant.client, '/api_keys', { owner_id: bot.id })
  return [tenant, fleet.clientFor(token)] as const
}

test('a node of a new wave gets what is there, and the next changes after they were watched', async () => {
  await answers(second, before, 200)
  const alice = await newTenant('alice.example')
  await answers(first, alice, 200)
  assert.notEqual(await status(second, alice), 200)
  await answers(second, alice, 200)
  await settled(alice)
  await alice.rule('deny', '127.0.0.0/30')
  const began = performance.now()
  await answers(first, alice, 403)
  assert.equal(await status(second, alice), 200)
  await answers(second, alice, 403)
  assert.ok(performance.now() - began > soakMs - 1_000, `${performance.now() - began} ms`)
})

test('a halted change is taken back from the first wave, the second never has it, and it comes when it is released', async () => {
  const bob = await newTenant('bob.example')
  const carol = await newTenant('carol.example')
  await answers(second, bob, 200)
  await settled(bob)
  const denied = await bob.client('POST', '/ip_policy_rules?wait=applied', {
    ip_policy_id: bob.policy.id,
    cidr: '127.0.0.0/30',
    action: 'deny',
  })
  await answers(first, bob, 403)
  const [rollout] = await open(bob)
  assert.ok(rollout)
  await command('halt', `${rollout.id}`)
  await answers(first, bob, 200)
  await holdsFor(soakMs + 1_500, async () => (await status(second, bob)) === 200)
  const generation = denied.headers.get('service-generation')
  const { body } = await bob.client('GET', `/generations/${generation}`)
  assert.match(JSON.stringify(body), /a rollout was halted: a test/)
  // Another account does not wait.
  await answers(second, carol, 200)
  // What it changes meanwhile waits too.
  await bob.client('PATCH', bob.edge.uri, { hostports: ['bob2.example:443'] })
  await holdsFor(1_000, async () => (await status(first, { ...bob, host: 'bob2.example' })) !== 200)

  const metrics = async () => (await fetch(`${fleet.origin}/metrics`)).text()
  await poll(metrics, (text) => text.includes('gatehouse_rollouts{state="halted"} 1'))

  second.child.kill('SIGKILL')
  second = Object.assign(await fleet.startJoined(second.machine), { machine: second.machine, name: second.name })
  await answers(second, bob, 200)

  await command('release', `${rollout.id}`)
  for (const node of [first, second]) await answers(node, { ...bob, host: 'bob2.example' }, 403)
  await settled(bob)
})

test('a halted change that is resumed is watched again', async () => {
  const dora = await newTenant('dora.example')
  await settled(dora)
  await dora.rule('deny', '127.0.0.0/30')
  await answers(first, dora, 403)
  const [rollout] = await open(dora)
  await command('halt', `${rollout?.id}`)
  await answers(first, dora, 200)
  await command('resume', `${rollout?.id}`)
  await answers(first, dora, 403)
  assert.equal(await status(second, dora), 200)
  await answers(second, dora, 403)
})

test('a judgment does nothing when people have decided about the rollout since it was looked at', async () => {
  const nora = await newTenant('nora.example')
  await settled(nora)
  await withSoak(60, async () => {
    await nora.rule('deny', '127.0.0.0/30')
    const [judged] = await open(nora)
    assert.ok(judged)
    await command('halt', `${judged.id}`)
    await command('resume', `${judged.id}`)
    await answers(first, nora, 403)
    const isOther = /another one now/
    await assert.rejects(releaseRollout(fleet.db, judged, 'next'), isOther)
    await assert.rejects(haltRollout(fleet.db, judged.id, { reason: 'late' }, judged), isOther)
    assert.equal(await status(second, nora), 200)
    await command('release', `${judged.id}`)
    await settled(nora)
  })
})

test('an account sees its rollouts, halts them, takes their changes back and resumes, and others do not', async () => {
  const erin = await newTenant('erin.example')
  const mallory = await fleet.newAccount()
  await answers(second, erin, 200)
  await settled(erin)
  const rule = await erin.rule('deny', '127.0.0.0/30')
  await answers(first, erin, 403)
  const list = async (query = '') => (await erin.client('GET', `/rollouts${query}`)).body.rollouts
  const [shown] = await list('?state=watching')
  const { body: got } = await erin.client('GET', shown.uri)
  assert.deepEqual(
    got.nodes.map(({ name, has_changes }: { name: string; has_changes: boolean }) => [name, has_changes]),
    [
      ['edge-canary', true],
      ['edge-later', false],
    ],
  )
  assert.deepEqual(
    got.changes.map(({ operation, resource_id }: Record<string, string>) => [operation, resource_id]),
    [['ip_policy_rules.create', rule.id]],
  )
  for (const verb of ['halt', 'resume', 'release'])
    assert.equal((await mallory('POST', `${shown.uri}/${verb}`, { reason: 'not mine' })).status, 404)
  assert.equal((await mallory('GET', shown.uri)).status, 404)

  const halted = await erin.client('POST', `${shown.uri}/halt`, { reason: 'logins fail' })
  assert.deepEqual([halted.status, halted.body.state, halted.body.wave], [200, 'halted', null])
  await answers(first, erin, 200)
  const again = await erin.client('POST', `${shown.uri}/halt`, { reason: 'once more' })
  assert.deepEqual([again.status, again.body.error_code], [409, 'ERR_ROLLOUT_STATE'])

  const { body: draft } = await erin.client('POST', `${shown.uri}/revert`, {})
  assert.equal((await erin.client('POST', `${draft.uri}/apply`, {})).status, 200)
  assert.equal((await erin.client('POST', `${shown.uri}/resume`, { reason: 'reverted' })).body.state, 'watching')
  await settled(erin)
  for (const node of [first, second]) assert.equal(await status(node, erin), 200)
  const { audit_events } = (await erin.client('GET', `/audit_events?resource_id=${shown.id}`)).body
  assert.deepEqual(audit_events.map(({ operation }: { operation: string }) => operation).reverse(), [
    'rollouts.start',
    'rollouts.halt',
    'rollouts.resume',
    'rollouts.release',
  ])
})

test('what was changed in a halted rollout says so', async () => {
  const frank = await newTenant('frank.example')
  await settled(frank)
  await frank.client('PATCH', frank.edge.uri, { hostports: ['frank2.example:443'] })
  const [rollout] = await poll(
    () => open(frank),
    ({ length }) => length === 1,
  )
  await command('halt', `${rollout?.id}`)
  const { body } = await frank.client('GET', frank.edge.uri)
  assert.equal(body.status.rollout.state, 'halted')
  assert.equal(body.status.rollout.id, toId('ro', rollout?.public_id as Uuid))
  assert.match(JSON.stringify(body.status), /a test/)
  await command('release', `${rollout?.id}`)
  await settled(frank)
  const { body: after } = await frank.client('GET', frank.edge.uri)
  assert.equal(after.status.rollout, undefined)
})

test("an urgent change reaches every node without the watch, takes along what is watched, and is an admin's with a reason", async () => {
  const [gina, member] = await withMember('gina.example')
  const soon = { headers: { 'service-reason': 'a leaked token' } }
  const rule = (cidr: string) => ({ ip_policy_id: gina.policy.id, cidr, action: 'deny' })
  await withSoak(300, async () => {
    const refused = await member('POST', '/ip_policy_rules?rollout=urgent', rule('127.0.0.2/32'), soon)
    assert.deepEqual([refused.status, refused.body.error_code], [403, 'ERR_FORBIDDEN'])
    const unexplained = await gina.client('POST', '/ip_policy_rules?rollout=urgent', rule('127.0.0.2/32'))
    assert.deepEqual([unexplained.status, unexplained.body.details.field], [400, 'Service-Reason'])

    await gina.client('PATCH', gina.edge.uri, { hostports: ['gina.example:443', 'gina2.example:443'] })
    await answers(first, { host: 'gina2.example' }, 200)
    const [watched] = await open(gina)
    const urgent = await gina.client(
      'POST',
      '/ip_policy_rules?rollout=urgent&wait=released',
      rule('127.0.0.0/30'),
      soon,
    )
    assert.equal(urgent.headers.get('service-takes-along'), toId('ro', watched?.public_id as Uuid))
    assert.equal(urgent.headers.get('service-applied'), '2/2')
    for (const node of [first, second]) await answers(node, { host: 'gina2.example' }, 403)
    await settled(gina)
    const { audit_events } = (await gina.client('GET', '/audit_events?operation=rollouts.urgent')).body
    assert.deepEqual(
      audit_events.map(({ owner_id, resource_id, after }: Record<string, unknown>) => [
        typeof owner_id,
        resource_id,
        after,
      ]),
      [['string', urgent.body.id, { operation: 'ip_policy_rules.create', reason: 'a leaked token' }]],
    )

    // What comes afterwards is watched.
    await gina.client('DELETE', `/ip_policy_rules/${urgent.body.id}?wait=applied`)
    await answers(first, gina, 200)
    assert.equal(await status(second, gina), 403)
    await command('halt', `${(await open(gina))[0]?.id}`)
    const whileHalted = await gina.client('POST', '/ip_policy_rules?rollout=urgent', rule('127.0.0.9/32'), soon)
    assert.deepEqual([whileHalted.status, whileHalted.body.error_code], [409, 'ERR_ROLLOUT_STATE'])
    const began = performance.now()
    const waited = await gina.client('PATCH', `${gina.edge.uri}?wait=released`, { hostports: ['gina3.example:443'] })
    assert.equal(waited.headers.get('service-applied'), '0/2')
    assert.ok(performance.now() - began < 60_000, 'waits for what will not come')
  })
})

test('a rule that refuses one address is everywhere at once, unless its policy is watched, and then it waits there', async () => {
  const helen = await newTenant('helen.example')
  await settled(helen)
  await withSoak(300, async () => {
    await helen.rule('deny', '127.0.0.9/32')
    for (const node of [first, second])
      await poll(
        () => status(node, helen, '127.0.0.9'),
        (found) => found === 403,
        { withinSeconds: 5 },
      )
    assert.deepEqual(await open(helen), [])
    // No address was let in often enough to say what a range does.
    await helen.rule('deny', '127.0.1.0/24')
    await helen.rule('deny', '127.0.0.8/32')
    await poll(
      () => status(first, helen, '127.0.0.8'),
      (found) => found === 403,
    )
    assert.equal((await open(helen)).length, 2)
    await holdsFor(1_000, async () => (await status(second, helen, '127.0.0.8')) === 200)
  })
})

test('NATS lets a node read its own wave only', async () => {
  for (const [wave, other] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const { connection } = await addNode(
      file,
      { url: fleet.nats.url, operator: fleet.operator },
      system,
      `edge-${wave}`,
      defaultCell.name,
      wave,
    )
    const info = (of: number) =>
      connection.request(`${apiPrefix}.STREAM.INFO.KV_${channelsOf(defaultCell.name, of).records}`, '', {
        timeout: 2_000,
      })
    assert.match((await info(wave)).string(), /"created"/)
    await assert.rejects(info(other), /no responders/)
    const heard: string[] = []
    connection.subscribe('>', { callback: (_, { subject }) => void heard.push(subject) })
    await connection.flush()
    await before.client('PATCH', before.edge.uri, { description: `changed at ${Date.now()}` })
    const mine = channelsOf(defaultCell.name, wave).batches
    await poll(
      () => heard,
      (subjects) => subjects.includes(mine),
    )
    assert.ok(!heard.includes(channelsOf(defaultCell.name, other).batches))
  }
})
