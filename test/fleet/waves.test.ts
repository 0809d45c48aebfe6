// A cell with two waves and a node in each: a change reaches the second after it was watched in the first.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { apiPrefix, channelsOf } from '../../src/distribution/channels.ts'
import { accountPusher } from '../../src/fleet/nats_accounts.ts'
import { toId } from '../../src/kernel/ids.ts'
import { defaultCell } from '../../src/operations/placement.ts'
import { latestRollouts } from '../../src/publisher/waves/decide.ts'
import { startHttpUpstream } from '../agent/http_harness.ts'
import { gatehouse } from '../harness/command.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { statusOf } from '../upgrade/installation.ts'
import { startJoining } from './joining.ts'
import { addNode, connectWith } from './operator_nats.ts'

const file = { after: (cleanUp: () => Promise<void>) => after(cleanUp) }
const fleet = await startJoining(file)
await fleet.untilReady()
const system = await connectWith(file, fleet.nats, accountPusher(fleet.operator, Date.now()))
const soakMs = 2_000
await run(fleet.db, sql`update cells set soak_seconds = ${soakMs / 1_000}`)
const first = await startNode('edge-canary', 0)
const web = await startHttpUpstream(file, 'web')
const before = await newTenant('before.example')
let second = await startNode('edge-later', 1)

async function startNode(name: string, wave: number) {
  const machine = await fleet.joinMachine(await fleet.invite(name, defaultCell, wave))
  assert.equal(machine.code, 0, machine.stderr)
  return Object.assign(await fleet.startJoined(machine), { machine })
}

async function newTenant(host: string) {
  const client = await fleet.newAccount()
  const backend = { backend_id: (await make(client, '/backends/static', { address: `127.0.0.1:${web.port}` })).id }
  const policy = await make(client, '/ip_policies', { description: `guards ${host}` })
  const edge = await newHttpsEdge(client, { hostports: [`${host}:443`] })
  const restriction = { ip_policy_ids: [policy.id] }
  const route = { match_type: 'path_prefix', match: '/', backend, ip_restriction: restriction }
  await make(client, `${edge.uri}/routes`, route)
  const rule = (action: string, cidr = '127.0.0.0/8') =>
    make(client, '/ip_policy_rules?wait=applied', { ip_policy_id: policy.id, cidr, action })
  await rule('allow')
  return { client, host, edge, policy, rule }
}
type Tenant = Awaited<ReturnType<typeof newTenant>>
type Node = typeof first

const status = (node: Node, { host }: Tenant) => statusOf(node.httpsPort, host, '127.0.0.1', '/').catch(() => 0)
const answers = (node: Node, tenant: Tenant, expected: number) =>
  poll(
    () => status(node, tenant),
    (found) => found === expected,
  )
const rollouts = async ({ client }: Tenant) =>
  (await latestRollouts(fleet.db, 100)).filter(({ account_id }) => client.accountId === toId('ac', account_id))
const open = async (tenant: Tenant) => (await rollouts(tenant)).filter(({ ended_at }) => !ended_at)
const settled = (tenant: Tenant) =>
  poll(
    () => open(tenant),
    ({ length }) => length === 0,
  )
const command = async (...args: string[]) => {
  const ended = await gatehouse(['rollouts', ...args, '--reason', 'a test'], fleet.env)
  assert.equal(ended.code, 0, ended.stderr)
}

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
  second = Object.assign(await fleet.startJoined(second.machine), { machine: second.machine })
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
