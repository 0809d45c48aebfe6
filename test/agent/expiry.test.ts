import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Kvm } from '@nats-io/kv'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { defaultChannels } from '../../src/distribution/channels.ts'
import type { EdgeRecord, PolicyRecord } from '../../src/distribution/records.ts'
import { stop } from '../harness/control_plane.ts'
import { type EdgeProcess, startInstallation } from '../harness/edge.ts'
import { make } from '../harness/fixtures.ts'
import { connectAsControlPlane } from '../harness/nats.ts'
import { pause, poll } from '../harness/poll.ts'
import { dial, newGuardedEdge, startTcpUpstream, statusOf } from './live_harness.ts'

const installation = await startInstallation({ after })
const { admin, nats } = installation
const upstream = await startTcpUpstream({ after })

/** How late a rule ended, in milliseconds. Fails if it ended early. */
async function endOf({ port }: { port: number }, from: string, moment: number, isInAfter: boolean): Promise<number> {
  for (;;) {
    const isIn = (await dial(port, from)) !== undefined
    const answeredAt = Date.now()
    if (isIn === isInAfter) {
      assert.ok(answeredAt >= moment, `${from} ended ${moment - answeredAt} ms early`)
      return answeredAt - moment
    }
    assert.ok(answeredAt < moment + 20_000, `${from} is still ${isIn ? 'in' : 'out'} 20 s after its rule expired`)
    await pause(20)
  }
}

const millisecondsFor = async (work: () => Promise<unknown>): Promise<number> => {
  const began = Date.now()
  await work()
  return Date.now() - began
}

async function filesInForce({ folder }: EdgeProcess, policyId: string): Promise<string> {
  const entries = await ask(`${folder}/haproxy/runtime.sock`, `show map ${folder}/haproxy/maps/policy.map`)
  const files = entries.split('\n').find((line) => line.includes(policyId))
  assert.ok(files, entries)
  return files.slice(files.lastIndexOf(' ') + 1)
}

test('rules end at their moment on a node that is alone, one after another and across restarts', async (t) => {
  const starting = Date.now()
  let edge = await installation.startEdge()
  const startMs = Date.now() - starting
  const [first, second] = [edge.tcpPorts.first, edge.tcpPorts.first + 1]
  const rules = ['allow 127.0.0.2', 'allow 127.0.0.16/28', 'allow 2001:db8::/32']
  // Several pieces, and enough to be continued instead of compiled again.
  const many = Array.from({ length: 12_000 }, (_, index) => `allow 10.${index >> 7}.${(index & 127) * 2}.0/24`)
  const small = await newGuardedEdge(admin, first, upstream.port, ...rules)
  const large = await newGuardedEdge(admin, second, upstream.port, ...rules, ...many)
  const expiring = [
    ['allow', '127.0.0.3', 'one'],
    ['deny', '127.0.0.16/30', 'one'],
    ['allow', '127.0.0.4', 'two'],
    ['deny', '127.0.0.17', 'two'],
    ['allow', '127.0.0.5', 'three'],
    ['deny', '127.0.0.20', 'three'],
  ] as const
  const created: { uri: string; moment: 'one' | 'two' | 'three' }[] = []
  const inForce = () => make(admin, '/backends/static?wait=applied', { address: '127.0.0.1:9' })
  const changesMs = await millisecondsFor(async () => {
    for (const { policyId: ip_policy_id } of [small, large])
      for (const [action, cidr, moment] of expiring) {
        const rule = { ip_policy_id, action, cidr, expires_at: '2100-01-01T00:00:00Z' }
        created.push({ uri: (await make(admin, '/ip_policy_rules', rule)).uri, moment })
      }
    await inForce()
  })
  const one = Date.now() + 3_000 + 2 * changesMs
  const two = one + 2_000 + 3 * startMs
  const three = two + 2_000
  for (const { uri, moment } of created) {
    const expires_at = new Date({ one, two, three }[moment]).toISOString()
    assert.equal((await admin('PATCH', uri, { expires_at })).status, 200)
  }
  await inForce()
  assert.ok(Date.now() < one, 'set up in time')

  for (const { child } of installation.processes) await stop(child, 'SIGKILL')
  await nats.stop('SIGKILL')
  const bothEnd = (allowed: string, denied: string, moment: number) =>
    Promise.all(
      [small, large].flatMap((guarded) => [
        endOf(guarded, allowed, moment, false),
        endOf(guarded, denied, moment, true),
      ]),
    )
  t.diagnostic(`first moment: late by ${await bothEnd('127.0.0.3', '127.0.0.18', one)} ms`)

  await stop(edge.child, 'SIGKILL')
  edge = await installation.startEdge({ like: edge, cutOff: true })
  for (const guarded of [small, large])
    assert.deepEqual(
      [
        await dial(guarded.port, '127.0.0.2'),
        await dial(guarded.port, '127.0.0.3'),
        await dial(guarded.port, '127.0.0.18'),
      ],
      ['hello', undefined, 'hello'],
      'as before the restart',
    )
  t.diagnostic(`second moment, after a restart: late by ${await bothEnd('127.0.0.4', '127.0.0.17', two)} ms`)

  await stop(edge.child)
  await pause(Math.max(0, three - Date.now()))
  edge = await installation.startEdge({ like: edge, cutOff: true })
  for (const guarded of [small, large])
    for (const [from, isIn] of [
      ['127.0.0.5', false],
      ['127.0.0.20', true],
      ['127.0.0.2', true],
    ] as const)
      assert.equal((await dial(guarded.port, from)) !== undefined, isIn, `${from} after a start past the moment`)

  const before = await Promise.all([small, large].map(({ policyId }) => filesInForce(edge, policyId)))
  await nats.restart()
  await installation.startProcess()
  const bucket = await new Kvm(await connectAsControlPlane({ after }, nats)).open(defaultChannels.records)
  for (const [index, { policyId }] of [small, large].entries()) {
    const record = await poll(
      async (): Promise<EdgeRecord> =>
        JSON.parse(JSON.parse(`${(await bucket.get(`policy.${policyId}`))?.string()}`).payload),
      ({ expiring }) => expiring === undefined,
    )
    await poll(
      () => statusOf(edge),
      ({ applied }) => applied >= record.generation,
    )
    assert.equal(`${(record.value as PolicyRecord).hash}.${record.rules?.hash}`, before[index], 'the node had the same')
    assert.equal(await filesInForce(edge, policyId), before[index])
  }
})
