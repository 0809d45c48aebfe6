import assert from 'node:assert/strict'
import { request } from 'node:https'
import { test } from 'node:test'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { transaction } from '../../src/db/transaction.ts'
import { startInstallation } from '../harness/edge.ts'
import { make } from '../harness/fixtures.ts'
import { policyWith, restrict } from '../harness/ip.ts'
import { holdsFor, pause, poll } from '../harness/poll.ts'
import { dial, newGuardedEdge, startTcpUpstream, wholeFile } from './live_harness.ts'

const scope = wholeFile()
const installation = await startInstallation(scope)
const { admin } = installation
const node = await installation.startEdge()
const upstream = await startTcpUpstream(scope)

/** The status of a request through the node, from one of this machine's addresses. */
const statusFrom = (localAddress: string, host: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const where = { host: '127.0.0.1', port: node.httpsPort, localAddress, servername: host, rejectUnauthorized: false }
    request({ ...where, path: '/', headers: { host }, agent: false }, (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
      .on('error', reject)
      .end()
  })

test('addresses that an edge node refuses appear in /ip_activity with the edge or route, for every kind of refusal', async () => {
  const { edge, port, backend } = await newGuardedEdge(
    admin,
    node.tcpPorts.first,
    upstream.port,
    'allow 127.0.0.0/28',
    'deny 127.0.0.9',
  )
  const https = await make(admin, '/edges/https', { hostports: ['app.example:443'] })
  const route = await make(admin, `${https.uri}/routes?wait=applied`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id: backend.id },
    ip_restriction: { ip_policy_ids: [await policyWith(admin, 'allow 127.0.0.1')] },
  })
  for (let i = 0; i < 3; i++) assert.equal(await dial(port, '127.0.0.9'), undefined)
  for (let i = 0; i < 2; i++) assert.equal(await statusFrom('127.0.0.9', 'app.example'), 403)
  assert.equal(await dial(port, '127.0.0.2'), 'hello')
  // Refused by the account now, who was let in before; and warned of by the other.
  await restrict(admin, { type: 'endpoints', ip_policy_ids: [await policyWith(admin)] })
  const policy = await policyWith(admin, 'allow 127.0.0.1')
  const applied = await admin('POST', '/ip_restrictions?wait=applied', {
    type: 'endpoints',
    enforced: true,
    ip_policy_ids: [policy],
  })
  assert.equal(applied.headers.get('service-applied'), '1/1')
  assert.equal(await dial(port, '127.0.0.2'), undefined)

  // The totals are not enough: the counts by edge are written after those by restriction.
  const { body } = await poll(
    () => admin('GET', '/ip_activity'),
    ({ body: { total, edges } }) =>
      total.endpoints.refused === 6 && total.endpoints.warned === 1 && edges[0].refused === 4 && edges[0].warned === 1,
  )
  assert.deepEqual(
    body.edges.map(({ last_at: _, ...shown }: { last_at: string }) => shown),
    [
      { target: { id: edge.id, uri: edge.uri }, edge: null, refused: 4, refused_by_module: 3, warned: 1 },
      {
        target: { id: route.id, uri: route.uri },
        edge: { id: https.id, uri: https.uri },
        refused: 2,
        refused_by_module: 2,
        warned: 0,
      },
    ],
  )
})

test('an address that an edge let in and a change shut out is listed for its admins, with the change', async () => {
  const account = await installation.newAccount()
  const { edge, port, policyId } = await newGuardedEdge(
    account,
    node.tcpPorts.first + 2,
    upstream.port,
    'allow 127.0.0.0/28',
  )
  for (const ip of ['127.0.0.2', '127.0.0.3']) assert.equal(await dial(port, ip), 'hello')
  // Before it is made, the preview of the change names the address and the edge.
  const rules = [
    { action: 'allow', cidr: '127.0.0.0/28' },
    { action: 'deny', cidr: '127.0.0.2/32' },
  ]
  const preview = await poll(
    async () => (await account('POST', `/ip_policies/${policyId}/impact`, { rules })).body.traffic[0],
    ({ newly_refused }) => newly_refused.total > 0,
    { everyMs: 500 },
  )
  assert.deepEqual(
    preview.newly_refused.addresses.map(({ ip, target }: { ip: string; target: { id: string } }) => [ip, target.id]),
    [['127.0.0.2', edge.id]],
  )
  const denied = await account('POST', '/ip_policy_rules?wait=applied', {
    ip_policy_id: policyId,
    cidr: '127.0.0.2',
    action: 'deny',
  })
  assert.equal(denied.headers.get('service-applied'), '1/1')
  // The node reports the addresses that it let in by itself; until that has arrived, a refusal is one of a stranger.
  const list = await poll(
    async () => {
      assert.equal(await dial(port, '127.0.0.2'), undefined)
      return (await account('GET', '/newly_refused_addresses')).body.newly_refused_addresses
    },
    (shown) => shown.length > 0,
    { everyMs: 500 },
  )
  assert.equal(list.length, 1)
  const [{ ip, target, decided_by, cause }] = list
  assert.deepEqual([ip, target.id, decided_by.by], ['127.0.0.2', edge.id, 'module'])
  assert.equal(decided_by.ip_policy_rule.id, denied.body.id)
  assert.equal(cause.audit_event.resource_id, denied.body.id)
})

test('every connection counts for the rule that decided about it, even while the control plane takes no counts', async () => {
  const account = await installation.newAccount()
  const rules = ['allow 127.0.0.0/24', 'deny 127.0.0.9', 'allow 127.0.0.16/28', 'allow 10.0.0.0/8']
  const { port, policyId } = await newGuardedEdge(account, node.tcpPorts.first + 1, upstream.port, ...rules)
  const expected: Record<string, number> = Object.fromEntries(rules.map((rule) => [rule.split(' ')[1] ?? '', 0]))
  const visit = async (last: number, times: number, range: string) => {
    for (let turn = 0; turn < times; turn++) await dial(port, `127.0.0.${last}`)
    expected[range] = (expected[range] ?? 0) + times
  }
  type Shown = { cidr: string; hits: number; last_hit_at: string | null }
  const evidence = async (): Promise<Shown[]> =>
    (await account('GET', `/ip_policies/${policyId}/rule_evidence`)).body.rule_evidence
  const counted = async () =>
    Object.fromEntries((await evidence()).map(({ cidr, hits }) => [cidr.replace('/32', ''), hits]))
  const asExpected = (found: Record<string, number>) =>
    Object.entries(expected).every(([range, hits]) => found[range] === hits)
  await visit(2, 5, '127.0.0.0/24')
  await visit(9, 3, '127.0.0.9')
  await visit(17, 4, '127.0.0.16/28')
  await poll(counted, asExpected)
  assert.equal((await evidence()).find(({ cidr }) => cidr === '10.0.0.0/8')?.last_hit_at, null)
  const { body } = await account('GET', `/ip_policies/${policyId}/rule_evidence`)
  assert.equal(body.nodes_not_counting, 0)

  // Writes fail: the node must keep the counts, and send them again until they are in the database.
  await run(installation.db, sql`alter table ip_rule_hits rename to ip_rule_hits_away`)
  await visit(2, 2, '127.0.0.0/24')
  await visit(9, 6, '127.0.0.9')
  await poll(() =>
    installation.processes.some(({ log }) =>
      log.some(({ msg }) => msg.startsWith('cannot write rule hits; the edge node')),
    ),
  )
  await run(installation.db, sql`alter table ip_rule_hits_away rename to ip_rule_hits`)
  await poll(counted, asExpected)
  await holdsFor(3_000, async () => asExpected(await counted()))
})

test('a refusal counts once, even when a slow database makes a node send its counts twice', async () => {
  const account = await installation.newAccount()
  const { port } = await newGuardedEdge(account, node.tcpPorts.first + 4, upstream.port, 'deny 127.0.0.2')
  const refused = async () => (await account('GET', '/ip_activity')).body.total.endpoints.refused
  await transaction(installation.db, async (tx) => {
    await run(tx, sql`lock table edges in access exclusive mode`)
    for (let turn = 0; turn < 7; turn++) assert.equal(await dial(port, '127.0.0.2'), undefined)
    // A node sends its counts within two seconds, waits for an answer for five, and sends them again after two more.
    await pause(9_500)
  })
  await poll(async () => (await refused()) >= 7)
  await holdsFor(3_000, async () => (await refused()) === 7)
})

test('an address that a module would refuse and only warns of is let in, counted and found among requests', async () => {
  const account = await installation.newAccount()
  const { edge, port, policyId } = await newGuardedEdge(
    account,
    node.tcpPorts.first + 3,
    upstream.port,
    'deny 127.0.0.2',
  )
  assert.equal(await dial(port, '127.0.0.2'), undefined)
  const path = `/edges/tcp/${edge.id}/ip_restriction?wait=applied`
  const replaced = await account('PUT', path, { ip_policy_ids: [policyId], mode: 'warn' })
  assert.equal(replaced.headers.get('service-applied'), '1/1')
  assert.equal(await dial(port, '127.0.0.2'), 'hello')
  const [counted] = await poll(
    async () => (await account('GET', '/ip_activity')).body.edges,
    ([found]) => found?.refused === 1 && found.warned === 1,
  )
  assert.deepEqual([counted.target.id, counted.refused_by_module], [edge.id, 1])
  const [found] = await poll(
    async () => (await account('GET', '/requests?outcome=warned')).body.requests,
    ({ length }) => length === 1,
  )
  assert.deepEqual(
    [
      found.source_ip,
      found.edge.id,
      found.reason,
      found.ip_restriction,
      found.ip_policy.id,
      found.ip_policy_rule !== null,
    ],
    ['127.0.0.2', edge.id, 'policy', null, policyId, true],
  )
})
