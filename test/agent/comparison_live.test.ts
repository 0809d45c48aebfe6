// From another program that writes to HAProxy's socket to the operator who should know of it.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { latestFleetEvents } from '../../src/fleet/node_store.ts'
import { startInstallation } from '../harness/edge.ts'
import { poll } from '../harness/poll.ts'
import { dial, newGuardedEdge, startTcpUpstream, statusOf } from './live_harness.ts'

test('an edge that another program opened is shut again, and the API, metrics and events of the fleet say so', async (t) => {
  const installation = await startInstallation(t)
  const { admin, db } = installation
  const edge = await installation.startEdge()
  const { port: upstream } = await startTcpUpstream(t)
  const { first } = edge.tcpPorts
  await newGuardedEdge(admin, first, upstream, 'deny 0.0.0.0/0')
  await newGuardedEdge(admin, first + 1, upstream, 'allow 0.0.0.0/0')
  const nodeStatus = async () => (await admin('GET', '/edge_nodes')).body.edge_nodes[0].status
  assert.equal((await poll(nodeStatus, ({ state }) => state === 'up')).code, 'ok')

  const [socket, file] = [join(edge.folder, 'haproxy/runtime.sock'), join(edge.folder, 'haproxy/maps/tcp.map')]
  const shown = await ask(socket, `show map ${file}`)
  const [, open] = shown.match(new RegExp(`:${first + 1} (.*)$`, 'm')) ?? assert.fail(shown)
  const [, shut] = shown.match(new RegExp(`^\\S+ (\\S+:${first}) `, 'm')) ?? assert.fail(shown)
  await ask(socket, `set map ${file} ${shut} ${open}`)
  assert.equal(await dial(first, '127.0.0.1'), 'hello')

  const { state } = await poll(nodeStatus, ({ code }) => code === 'proxy_differs')
  assert.equal(state, 'degraded')
  // Named first, then repaired.
  await poll(async () => (await dial(first, '127.0.0.1')) === undefined)
  const [event] = await poll(
    () => latestFleetEvents(db, 10),
    (events) => events.length > 0,
  )
  assert.deepEqual([event?.operation, event?.node], ['proxy_changed', 'edge-1'])
  const { differences } = await statusOf(edge)
  const [latest] = differences.latest
  assert.deepEqual([latest.what, latest.name, latest.kind], ['tcp', shut, 'changed'])

  await poll(nodeStatus, ({ state }) => state === 'up')
  assert.match(await (await fetch(`${edge.statusUrl}/metrics`)).text(), /^gatehouse_edge_differences_total 1$/m)
  assert.equal((await latestFleetEvents(db, 10)).length, 1)
})
