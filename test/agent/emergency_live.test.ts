// With the control plane, the database and NATS dead, an operator refuses a range by the commands of the docs.
import assert from 'node:assert/strict'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { latestFleetEvents } from '../../src/fleet/node_store.ts'
import { gatehouse } from '../harness/command.ts'
import { stop } from '../harness/control_plane.ts'
import { startInstallation } from '../harness/edge.ts'
import { poll } from '../harness/poll.ts'
import { dial, newGuardedEdge, startTcpUpstream, statusOf } from './live_harness.ts'

const installation = await startInstallation({ after })
const { admin, nats, processes, tcpPorts } = installation
const folder = await mkdtemp(join(tmpdir(), 'gatehouse-emergency-'))
const key = join(folder, 'emergency.key')
const attacker = '127.0.0.66'

test('an order made offline is enforced by a node that is alone, and shown everywhere when the others are back', async () => {
  const made = await gatehouse(['emergency', 'init', '--key', key])
  const env = { GATEHOUSE_EDGE_EMERGENCY_KEYS: made.stdout.trim() }
  const node = await installation.startEdge({ env })
  const upstream = await startTcpUpstream({ after })
  const { port } = await newGuardedEdge(admin, tcpPorts.first, upstream.port, 'allow 127.0.0.0/8')
  assert.equal(await dial(port, attacker), 'hello')
  const [first] = processes
  assert.ok(first)
  await stop(first.child)
  process.kill(nats.pid, 'SIGSTOP')

  const sign = async (...args: string[]) => {
    const { code, stdout, stderr } = await gatehouse(['emergency', ...args, '--key', key])
    assert.equal(code, 0, stderr)
    const file = join(folder, 'order')
    await writeFile(file, stdout)
    return { file, id: /order (\w{12})/i.exec(stderr)?.[1] ?? '' }
  }
  const listen = new URL(node.statusUrl).host
  const apply = (file: string) => gatehouse(['edge', 'apply-emergency', file], { GATEHOUSE_EDGE_STATUS_LISTEN: listen })
  const order = await sign('refuse', '127.0.0.64/29', '--for', '2h', '--reason', 'flood of 12 May')
  const applied = await apply(order.file)
  assert.match(applied.stdout, /^refusing 127\.0\.0\.64\/29 until /, applied.stderr)
  assert.equal(await dial(port, attacker), undefined)
  assert.equal(await dial(port, '127.0.0.77'), 'hello')
  const ready = await (await fetch(`${node.statusUrl}/readyz`)).json()
  assert.match(JSON.stringify(ready), new RegExp(`emergency order ${order.id} refuses 1 ranges until`))
  assert.match(await (await fetch(`${node.statusUrl}/metrics`)).text(), /^gatehouse_edge_emergency_orders 1$/m)

  node.child.kill('SIGKILL')
  const again = await installation.startEdge({ like: node, env, cutOff: true })
  await poll(() =>
    statusOf(again).then(
      () => true,
      () => false,
    ),
  )
  assert.equal(await dial(port, attacker), undefined)

  process.kill(nats.pid, 'SIGCONT')
  await installation.startProcess()
  const client = installation.clientFor(admin.token)
  const listed = async () => (await client('GET', '/edge_nodes', undefined, { process: 1 })).body.edge_nodes?.[0]
  const shown = await poll(listed, (edgeNode) => edgeNode?.live && edgeNode.status.code === 'emergency')
  assert.match(shown.status.reason, new RegExp(`By emergency order ${order.id}, it refuses 1 range of addresses until`))
  const noted = await poll(
    async () =>
      (await latestFleetEvents(installation.db, 10)).filter(({ operation }) => operation === 'emergency_order'),
    (events) => events.length > 0,
  )
  assert.deepEqual(
    noted.map(({ node: name, detail }) => [name, `${detail}`.startsWith(`${order.id}: refuses 1 ranges until`)]),
    [['edge-1', true]],
  )
  assert.match(`${noted[0]?.detail}`, /: flood of 12 May$/)

  const lift = await gatehouse(['emergency', 'lift', order.id, '--key', key])
  await writeFile(order.file, lift.stdout)
  const lifted = await gatehouse(['edge', 'apply-emergency', order.file], {
    GATEHOUSE_EDGE_STATUS_LISTEN: new URL(again.statusUrl).host,
  })
  assert.equal(lifted.stdout.trim(), `order ${order.id} has ended`, lifted.stderr)
  assert.equal(await dial(port, attacker), 'hello')
})

test('the commands say what is wrong with a key, a range, a time and an order', async () => {
  const wrong = async (...args: string[]) => {
    const { code, stderr, stdout } = await gatehouse([...args])
    assert.deepEqual([code, stdout], [2, ''], stderr)
    return stderr
  }
  assert.match(await wrong('emergency', 'init', '--key', key), /exists already, and is not overwritten/)
  const refuse = (...args: string[]) => wrong('emergency', 'refuse', '--key', key, ...args)
  assert.match(await refuse(), /usage: gatehouse emergency refuse/)
  assert.match(await refuse('203.0.113.1/24'), /has host bits set; did you mean 203\.0\.113\.0\/24/)
  assert.match(await refuse('0.0.0.0/0'), /refuses everyone. If that is what you want, add --everyone/)
  assert.match(await refuse('203.0.113.0/24', '--for', '8d'), /--for must be a time up to 7 days/)
  assert.match(await refuse('203.0.113.0/24', '--cell', 'No Cell'), /is not the name of a cell/)
  assert.match(
    await wrong('emergency', 'refuse', '203.0.113.0/24', '--key', '/nowhere'),
    /--key \/nowhere cannot be used/,
  )
  assert.match(await wrong('emergency', 'lift', 'x', '--key', key), /usage: gatehouse emergency lift/)
  assert.match(await wrong('emergency', 'drop'), /expected 'emergency' init, refuse or lift/)
})
