// A node whose state folder is on a read-only file system starts from its last state, says that it is read-only, and takes in
// changes when it can write again.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { gatehouse } from '../harness/command.ts'
import { stop } from '../harness/control_plane.ts'
import { startInstallation } from '../harness/edge.ts'
import { poll } from '../harness/poll.ts'
import { dial, newGuardedEdge, startTcpUpstream } from './live_harness.ts'

const mount = (...args: string[]) => spawnSync('mount', args).status === 0
const canMount = process.getuid?.() === 0 && spawnSync('unshare', ['-m', 'true']).status === 0
const skip = canMount ? false : 'only root can mount'

const installation = await startInstallation({ after })
const { admin, startEdge } = installation
let edge = await startEdge()
const runtimeFolder = { GATEHOUSE_EDGE_RUNTIME_FOLDER: join(edge.folder, '..', `gatehouse-runtime-${process.pid}`) }
after(() => void spawnSync('rm', ['-rf', runtimeFolder.GATEHOUSE_EDGE_RUNTIME_FOLDER]))
const { port: upstreamPort } = await startTcpUpstream({ after })
const guarded = await newGuardedEdge(admin, edge.tcpPorts.first, upstreamPort, 'allow 127.0.0.2')
await poll(
  () => dial(guarded.port, '127.0.0.2'),
  (answer) => answer === 'hello',
)

/** Also for HAProxy, which looks up paths from the root. */
function makeReadOnly(folder: string): void {
  assert.ok(mount('--bind', folder, folder) && mount('-o', 'remount,bind,ro', folder))
}
const makeWritable = (folder: string) => void spawnSync('umount', ['-l', folder])

const readiness = async () => (await fetch(`${edge.statusUrl}/readyz`)).text()
const answersTo = (address: string) => dial(guarded.port, address)
const rules = (text: string) =>
  installation.clientFor(admin.token)('PUT', `/ip_policies/${guarded.policyId}/rules`, undefined, {
    rawBody: text,
    contentType: 'text/plain',
  })

/** What doctor says of the ports of HAProxy. */
async function portFindings(): Promise<string[]> {
  const { stdout } = await gatehouse(['doctor', '--output', 'json'], {
    ...installation.nats.edge,
    ...runtimeFolder,
    GATEHOUSE_EDGE_NODE: 'edge-1',
    GATEHOUSE_EDGE_TRUSTED_KEYS: installation.publicKey,
    GATEHOUSE_EDGE_FOLDER: edge.folder,
    GATEHOUSE_TCP_PORTS: `${edge.tcpPorts.first}-${edge.tcpPorts.last}`,
    GATEHOUSE_EDGE_TCP_ADDRESSES: '127.0.0.1,[::1]',
    GATEHOUSE_EDGE_HTTPS_LISTEN: `127.0.0.1:${edge.httpsPort}`,
  })
  const { checks } = JSON.parse(stdout) as { checks: { check: string; message: string }[] }
  return checks.filter(({ check }) => check === 'haproxy.ports').map(({ message }) => message)
}

for (const [what, signal, newAddress] of [
  ['alone, with HAProxy running on', 'SIGKILL', '127.0.0.3'],
  ['together with HAProxy', 'SIGTERM', '127.0.0.4'],
  ['alone, with HAProxy running on in its temporary folder', 'SIGKILL', '127.0.0.5'],
] as const)
  test(`a node that was restarted ${what} serves its last state from a read-only folder`, { skip }, async () => {
    makeReadOnly(edge.folder)
    try {
      await stop(edge.child, signal)
      edge = await startEdge({ like: edge, cutOff: true, env: runtimeFolder })
      assert.equal(await answersTo('127.0.0.2'), 'hello')
      assert.notEqual(await answersTo(newAddress), 'hello')
      assert.match(await readiness(), /^\{"status":"ready","warnings":\["no changes are applied: .*read-only"\]\}$/)
      assert.ok(edge.log.some(({ msg }) => `${msg}`.includes('on a read-only file system: serving its last state')))
      for (const said of await portFindings()) assert.match(said, /held by this node's HAProxy$/)

      const { status, headers } = await rules(`allow 127.0.0.2\nallow ${newAddress}`)
      assert.equal(status, 200)
      const change = async () =>
        (await admin('GET', `/generations/${headers.get('service-generation')}`)).body.applied_nodes
      await poll(readiness, (text) => text.includes('records.log'))
      assert.notEqual(await answersTo(newAddress), 'hello')
      assert.equal(await change(), 0)
      makeWritable(edge.folder)
      await poll(
        () => answersTo(newAddress),
        (answer) => answer === 'hello',
      )
      await poll(change, (applied) => applied === 1)
    } finally {
      makeWritable(edge.folder)
    }
  })

test('an HAProxy that dies in a read-only folder is started by the next agent', { skip }, async () => {
  await stop(edge.child, 'SIGTERM')
  edge = await startEdge({ like: edge, env: runtimeFolder })
  makeReadOnly(edge.folder)
  try {
    const processes = await ask(join(edge.folder, 'haproxy', 'master.sock'), 'show proc')
    const master = Number(/^(\d+)\s+master\s/m.exec(processes)?.[1])
    const ended = once(edge.child, 'exit')
    process.kill(master, 'SIGTERM')
    assert.deepEqual(await ended, [0, null])
    edge = await startEdge({ like: edge, cutOff: true, env: runtimeFolder })
    assert.equal(await answersTo('127.0.0.2'), 'hello')
  } finally {
    makeWritable(edge.folder)
  }
})
