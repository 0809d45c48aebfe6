// A cell with two waves and a node in each: a change reaches the second after it was watched in the first.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { apiPrefix, channelsOf } from '../../src/distribution/channels.ts'
import { accountPusher } from '../../src/fleet/nats_accounts.ts'
import { toId, type Uuid } from '../../src/kernel/ids.ts'
import { defaultCell } from '../../src/operations/placement.ts'
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

test('a node of a new wave gets what is there, and the next changes after they were watched', async () => {
  await answers(second, before, 200)
  const alice = await newTenant('alice.example')
  await answers(first, alice, 200)
  assert.notEqual(await status(second, alice), 200)
  await answers(second, alice, 200)
  await settled(alice)
  await alice.rule('deny', '127.0.0.1/32')
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
    cidr: '127.0.0.1/32',
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
  await dora.rule('deny', '127.0.0.1/32')
  await answers(first, dora, 403)
  const [rollout] = await open(dora)
  await command('halt', `${rollout?.id}`)
  await answers(first, dora, 200)
  await command('resume', `${rollout?.id}`)
  await answers(first, dora, 403)
  assert.equal(await status(second, dora), 200)
  await answers(second, dora, 403)
})

test('an account sees its rollouts, halts them, takes their changes back and resumes, and others do not', async () => {
  const erin = await newTenant('erin.example')
  const mallory = await fleet.newAccount()
  await answers(second, erin, 200)
  await settled(erin)
  const rule = await erin.rule('deny', '127.0.0.1/32')
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

test('NATS lets a node read its own wave only', async () => {
  for (const [wave, other] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const { connection } = await addNode(
      file,
      { ...fleet.nats, operator: fleet.operator, folder: '' },
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
