import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { defaultChannels } from '../../src/distribution/channels.ts'
import { gatehouse } from '../harness/command.ts'
import { stop } from '../harness/control_plane.ts'
import { startInstallation } from '../harness/edge.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { printed, sized } from '../harness/thorough.ts'
import { dial, newGuardedEdge, startTcpUpstream, statusOf, wholeFile } from './live_harness.ts'

const file = wholeFile()
const installation = await startInstallation(file)
const { admin, nats } = installation
let edge = await installation.startEdge()
const upstream = await startTcpUpstream(file)
const allowed = '127.0.0.2'
const refused = '127.0.0.3'
let guarded: Awaited<ReturnType<typeof newGuardedEdge>>
before(async () => {
  guarded = await newGuardedEdge(admin, edge.tcpPorts.first, upstream.port, `allow ${allowed}`)
})
const decisions = async () => [await dial(guarded.port, allowed), await dial(guarded.port, refused)]
const asWanted = ['hello', undefined]
const setRules = (policyId: string, lines: readonly string[], query = '?wait=applied&confirm=true') =>
  admin('PUT', `/ip_policies/${policyId}/rules${query}`, undefined, {
    rawBody: lines.join('\n'),
    contentType: 'text/plain',
  })

/** The process ids of HAProxy's master and of the worker that takes connections. */
async function haproxyPids(): Promise<{ master: number; worker: number }> {
  const processes = await ask(join(edge.folder, 'haproxy/master.sock'), 'show proc').catch(() => '')
  const pid = (kind: string) => Number(new RegExp(`^(\\d+)\\s+${kind}\\s`, 'm').exec(processes)?.[1] ?? 0)
  return { master: pid('master'), worker: pid('worker') }
}

test('the node reports its status to the operator and to Prometheus', async () => {
  const ask = async () => {
    const { code, stdout, stderr } = await gatehouse(['edge', 'status'], {
      GATEHOUSE_EDGE_NODE: 'edge-1',
      GATEHOUSE_EDGE_TRUSTED_KEYS: installation.publicKey,
      GATEHOUSE_EDGE_STATUS_LISTEN: new URL(edge.statusUrl).host,
    })
    assert.equal(code, 0, stderr)
    return { status: JSON.parse(stdout), metrics: await (await fetch(`${edge.statusUrl}/metrics`)).text() }
  }
  // What the node receives between the two questions shows only in the second answer.
  const { status, metrics } = await poll(ask, ({ status, metrics }) =>
    metrics.includes(`\ngatehouse_edge_applied_generation ${status.applied}\n`),
  )
  const { node, applied, connected, records, refusals, unfinished } = status
  assert.ok(applied >= guarded.generation && records >= 3, JSON.stringify(status))
  assert.deepEqual([node, connected, refusals, unfinished], ['edge-1', true, [], 0])
  const { body: nodes } = await admin('GET', '/edge_nodes')
  assert.equal(status.nodeKeyFingerprint, nodes.edge_nodes[0].certificate_key.fingerprint)
  assert.match(metrics, /^gatehouse_edge_connected 1$/m)
  assert.equal((await fetch(`${edge.statusUrl}/healthz`)).status, 200)
  assert.equal((await fetch(`${edge.statusUrl}/elsewhere`)).status, 404)
})

test('an upstream can be a host name', async () => {
  const port = edge.tcpPorts.first + 1
  const backend = await make(admin, '/backends/static', { address: `localhost:${upstream.port}` })
  const created = await admin('POST', '/edges/tcp?wait=applied', {
    hostports: [`named.example:${port}`],
    backend: { backend_id: backend.id },
  })
  assert.equal(created.headers.get('service-applied'), '1/1')
  assert.equal(await dial(port, allowed), 'hello')
})

test('an edge shadowed by an earlier one is reported as refused, without naming the other', async () => {
  const other = await installation.newAccount()
  const https = await newHttpsEdge(other, { hostports: ['spelled.example:443'] })
  await make(other, `${https.uri}/routes`, { match_type: 'path_prefix', match: '/api' })
  const late = [
    [admin, await admin('POST', '/edges/tcp', { hostports: [`late.example:${guarded.port}`] })],
    [other, await other('POST', `${https.uri}/routes`, { match_type: 'path_prefix', match: '/%61pi/' })],
  ] as const
  for (const [as, { headers, status, text }] of late) {
    assert.equal(status, 201, text)
    const { body } = await poll(
      () => as('GET', `/generations/${headers.get('service-generation')}`),
      ({ body: { refusals } }) => refusals.length > 0,
    )
    assert.match(body.refusals[0].reason, /^is not reached/)
    assert.ok(!body.refusals[0].reason.includes('edgtcp_'), body.refusals[0].reason)
    assert.deepEqual([body.applied_nodes, body.behind, body.refusals[0].node], [0, ['edge-1'], 'edge-1'])
  }
  assert.deepEqual(await decisions(), asWanted)
})

test('when HAProxy is killed, the agent restarts it with the same decisions', async () => {
  const before = await haproxyPids()
  process.kill(before.master, 'SIGKILL')
  process.kill(before.worker, 'SIGKILL')
  await poll(haproxyPids, ({ master, worker }) => master > 0 && master !== before.master && worker > 0)
  await poll(decisions, (now) => now[0] === 'hello')
  assert.deepEqual(await decisions(), asWanted)
})

test('when the agent is killed, HAProxy keeps serving, the API names the node as behind, and the next agent takes over', async () => {
  const before = { ...(await haproxyPids()), ...(await statusOf(edge)) }
  await stop(edge.child, 'SIGKILL')
  assert.deepEqual(await decisions(), asWanted)
  const began = Date.now()
  const changed = await setRules(`${guarded.policyId}`, [`allow ${allowed}`, 'allow 127.0.0.4'])
  assert.equal(changed.status, 200)
  const waited = Date.now() - began
  assert.ok(waited < loadScaledTimeout(12_000), `the answer came after ${waited} ms`)
  // A node that was silent for ten seconds is not counted any more, and it may just have become so.
  const said = [changed.headers.get('service-applied'), changed.headers.get('service-behind')]
  assert.ok(['0/1,edge-1', '0/0,'].includes(said.join()), said.join())
  assert.deepEqual(await decisions(), asWanted)
  assert.equal(await dial(guarded.port, '127.0.0.4'), undefined)
  edge = await installation.startEdge({ like: edge })
  const loaded = edge.log.find(({ msg }) => msg === 'serving from disk')
  // The killed agent may have read on in the bucket after it was asked.
  const [applied, revision] = [Number(loaded?.applied), Number(loaded?.revision)]
  assert.ok(applied >= before.applied && revision >= before.revision, JSON.stringify({ before, loaded }))
  await poll(
    () => dial(guarded.port, '127.0.0.4'),
    (answer) => answer === 'hello',
  )
  const { master, worker } = await haproxyPids()
  assert.deepEqual([master, worker], [before.master, before.worker])
})

const manyRules = sized(30_000, 100_000)
test(`changing one of ${printed(manyRules)} rules transfers only its piece`, async () => {
  const port = edge.tcpPorts.first + 2
  const lines = Array.from(
    { length: manyRules - 2 },
    (_, index) => `allow ${1 + (index >> 15)}.${(index >> 7) & 255}.${(index & 127) * 2}.0/24`,
  )
  const large = await newGuardedEdge(admin, port, upstream.port)
  const put = await setRules(`${large.policyId}`, [...lines, `allow ${allowed}`])
  assert.deepEqual([put.status, put.headers.get('service-applied')], [200, '1/1'])
  assert.deepEqual([await dial(port, allowed), await dial(port, refused)], ['hello', undefined])
  const pieces = async () => new Set(await readdir(join(edge.folder, 'pieces')))
  const before = await pieces()
  assert.ok(before.size > manyRules / 5_000, `${before.size} pieces`)
  const rule = { ip_policy_id: large.policyId, action: 'allow', cidr: refused }
  const added = await admin('POST', '/ip_policy_rules?wait=applied', rule)
  assert.equal(added.headers.get('service-applied'), '1/1')
  assert.equal(await dial(port, refused), 'hello')
  const fresh = (await pieces()).difference(before)
  // One or two, and the twelve bytes that hold the counts.
  assert.ok(fresh.size >= 1 && fresh.size <= 3, `${fresh.size} new pieces`)
})

test('while a piece of a policy is missing, the old policy stays in force and the node reports that it is behind', async () => {
  const control = await connect({ servers: nats.url, user: 'control-plane', pass: 'control-plane' })
  after(() => control.close())
  const kvm = new Kvm(jetstream(control))
  const [records, blobs] = [await kvm.open(defaultChannels.records), await kvm.open(defaultChannels.blobs)]
  const { streams } = await jetstreamManager(control)
  const names = async () => new Set(await Array.fromAsync(await blobs.keys()))
  const before = await names()
  const revision = async () => (await records.get(`policy.${guarded.policyId}`))?.revision
  const old = await revision()
  // Too many for the record itself. The node is paused until the pieces are gone, so that it cannot have read them before.
  const lines = Array.from({ length: 10_000 }, (_, index) => `allow 1.${index >> 7}.${(index & 127) * 2}.0/24`)
  edge.child.kill('SIGSTOP')
  const put = await setRules(`${guarded.policyId}`, [...lines, `allow ${refused}`], '?confirm=true')
  const generation = Number(put.headers.get('service-generation'))
  const missing = new Map<string, Uint8Array>()
  try {
    await poll(revision, (found) => found !== old)
    for (const name of (await names()).difference(before)) {
      missing.set(name, (await blobs.get(name))?.value ?? new Uint8Array())
      await streams.purge(`KV_${defaultChannels.blobs}`, { filter: `$KV.${defaultChannels.blobs}.${name}` })
    }
  } finally {
    edge.child.kill('SIGCONT')
  }
  assert.ok(missing.size > 0)
  await poll(
    () => statusOf(edge),
    ({ unfinished }) => unfinished === 1,
  )
  const later = await admin('POST', '/ip_policies', {})
  const next = Number(later.headers.get('service-generation'))
  // Long enough for everything about the later change to have come: nothing but the pieces may bring the node forward.
  await holdsFor(1_000, async () => isDeepStrictEqual(await decisions(), asWanted))
  const { applied } = await statusOf(edge)
  assert.ok(applied < generation, `${applied} of ${generation}`)
  const { body } = await admin('GET', `/generations/${next}`)
  assert.deepEqual(body.behind, ['edge-1'])
  for (const [name, piece] of missing) await blobs.put(name, piece)
  await poll(
    () => statusOf(edge),
    ({ applied, unfinished }) => applied >= next && unfinished === 0,
  )
  assert.deepEqual(await decisions(), [undefined, 'hello'])
  const restored = await setRules(`${guarded.policyId}`, [`allow ${allowed}`])
  assert.equal(restored.headers.get('service-applied'), '1/1')
  assert.deepEqual(await decisions(), asWanted)
})

test('with NATS down, a node starts from disk with the same decisions, stops cleanly, and catches up later', async () => {
  await nats.stop('SIGKILL')
  await poll(
    () => statusOf(edge),
    ({ connected }) => connected === false,
  )
  for (let start = 0; start < 2; start++) {
    await stop(edge.child)
    assert.equal(await dial(guarded.port, allowed), undefined)
    edge = await installation.startEdge({ like: edge, cutOff: true })
    assert.deepEqual(await decisions(), asWanted)
    assert.equal((await statusOf(edge)).connected, false)
  }
  // The API does not need NATS either, not even to start.
  const [plane] = installation.processes
  if (plane) await stop(plane.child)
  await installation.startProcess()
  const again = installation.clientFor(admin.token)
  const rule = { ip_policy_id: guarded.policyId, action: 'allow', cidr: refused }
  const added = await again('POST', '/ip_policy_rules', rule, { process: 1 })
  assert.equal(added.status, 201, added.text)
  await nats.restart()
  await poll(
    () => dial(guarded.port, refused),
    (answer) => answer === 'hello',
  )
  assert.equal((await statusOf(edge)).connected, true)
})

test('a node that gets two signals leaves no HAProxy behind', async () => {
  const { master, worker } = await haproxyPids()
  const ended = stop(edge.child)
  await poll(() => edge.log.some(({ msg }) => /^stopping/.test(String(msg))), Boolean, { everyMs: 1 })
  edge.child.kill('SIGTERM')
  await ended
  assert.equal(edge.child.exitCode, 0)
  for (const pid of [master, worker]) assert.throws(() => process.kill(pid, 0), /ESRCH/)
})
