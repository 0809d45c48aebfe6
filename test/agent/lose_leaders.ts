import assert from 'node:assert/strict'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { startNatsCluster } from '../../dev/nats.ts'
import { defaultChannels } from '../../src/distribution/channels.ts'
import type { Scope } from '../harness/control_plane.ts'
import { startInstallation } from '../harness/edge.ts'
import { make } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { pause, poll } from '../harness/poll.ts'
import { dial, newGuardedEdge, startTcpUpstream, statusOf } from './live_harness.ts'

const [changing, others] = ['127.0.0.9', 15]

/**
 * Three NATS servers, and the one that leads the bucket is killed after a third and after two thirds of the changes. One
 * client makes a change and waits until it is in force; another makes changes and waits for none.
 */
export async function loseLeaders(scope: Scope, changes: number, say: (line: string) => void) {
  const nats = startNatsCluster(3)
  const installation = await startInstallation(scope, {}, undefined, nats)
  const { admin } = installation
  const { nodes, controlPlane } = await nats
  const edge = await installation.startEdge()
  const upstream = await startTcpUpstream(scope)
  const { port, policyId, backend } = await newGuardedEdge(admin, edge.tcpPorts.first, upstream.port, 'allow 127.0.0.2')

  /** Shut and opened by a second client, who does not wait for any of it. */
  const doors = await Promise.all(
    Array.from({ length: others }, async (_, index) => {
      const policy = await policyWith(admin, 'allow 127.0.0.2')
      const hostport = `door-${index}.example:${edge.tcpPorts.first + 1 + index}`
      const made = {
        hostports: [hostport],
        backend: { backend_id: backend.id },
        ip_restriction: { ip_policy_ids: [policy] },
      }
      await make(admin, '/edges/tcp', made)
      return { port: edge.tcpPorts.first + 1 + index, policy, rule: undefined as string | undefined, changes: 0 }
    }),
  )

  const leader = async (): Promise<(typeof nodes)[number]> => {
    const connection = await connect({
      servers: nodes.map(({ url }) => url.replace('nats://', '')),
      user: controlPlane.GATEHOUSE_NATS_USER,
      pass: controlPlane.GATEHOUSE_NATS_PASSWORD,
    })
    try {
      const { cluster } = await (await jetstreamManager(connection)).streams.info(`KV_${defaultChannels.records}`)
      const node = nodes.find(({ name }) => name === cluster?.leader)
      assert.ok(node, `no leader: ${JSON.stringify(cluster)}`)
      return node
    } finally {
      await connection.close()
    }
  }

  const change = async (policy: unknown, rule: string | undefined): Promise<string | undefined> => {
    const answer = rule
      ? await admin('DELETE', rule)
      : await admin('POST', '/ip_policy_rules', { ip_policy_id: policy, action: 'allow', cidr: changing })
    assert.ok(answer.status === 201 || answer.status === 204, answer.text)
    return rule ? undefined : answer.body.uri
  }
  let over = false
  scope.after(async () => {
    over = true
    await impatient
  })
  const impatient = (async () => {
    for (let turn = 0; !over; turn = (turn + 1) % doors.length) {
      const door = doors[turn] as (typeof doors)[number]
      door.rule = await change(door.policy, door.rule)
      door.changes++
      await pause(20)
    }
  })()

  const latencies: number[] = []
  let rule: string | undefined
  let dead: (typeof nodes)[number] | undefined
  for (let index = 0; index < changes; index++) {
    if (index === Math.floor(changes / 3) || index === Math.floor((changes * 2) / 3)) {
      dead = await poll(
        () => leader().catch(() => undefined),
        (node) => node !== undefined,
      )
      await dead?.stop('SIGKILL')
      say(`change ${index}: ${dead?.name} led the bucket, and is killed`)
    }
    if (dead && index === Math.floor(changes / 2)) {
      await dead.restart()
      say(`change ${index}: ${dead.name} is back`)
    }
    rule = await change(policyId, rule)
    const answered = performance.now()
    while ((await dial(port, changing)) !== (rule ? 'hello' : undefined))
      assert.ok(performance.now() - answered < 60_000, `change ${index} is not in force after a minute`)
    latencies.push(performance.now() - answered)
    if (performance.now() - answered > 500) say(`change ${index} took ${(performance.now() - answered).toFixed(0)} ms`)
  }
  over = true
  await impatient
  const last = await admin('POST', '/ip_policies', {})
  await poll(
    () => statusOf(edge),
    ({ applied }) => applied >= Number(last.headers.get('service-generation')),
  )
  let wrong = 0
  for (const door of doors) if ((await dial(door.port, changing)) !== (door.rule ? 'hello' : undefined)) wrong++
  const unseen = doors.reduce((sum, door) => sum + door.changes, 0)
  return { latencies, unseen, wrong, edges: doors.length }
}
