// One truth about health: broken states as lists, single reads and the command line show them. No two of them may disagree, and
// nothing may look fine that is not. truth.test.ts has what people see.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { cliFor } from '../cli/harness.ts'
import { make } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { startFleet } from '../harness/reporting_nodes.ts'
import { furnishBrokenStates, kinds, nameOf, table } from './broken_states.ts'

const fleet = await startFleet({ after })
const { db, report } = fleet
const admin = await fleet.newAccount()
const cli = cliFor(fleet, admin)

const { edges, health, uncovered, usual, reportUsual } = await furnishBrokenStates(fleet, admin)
const pathOf = (uri: string) => new URL(uri).pathname
type Row = { id: string; uri: string; status: { state: string; code: string; reason: string } } & Record<string, string>

const listOf = async (kind: keyof typeof kinds): Promise<Row[]> =>
  (await admin('GET', kinds[kind].path)).body[kinds[kind].list]
const rows = async () => (await Promise.all((Object.keys(kinds) as (keyof typeof kinds)[]).map(listOf))).flat()
const shown = (all: readonly Row[]) =>
  Object.fromEntries(all.map((row) => [nameOf(row), `${row.status.state} ${row.status.code}`]))

const expected = Object.fromEntries([
  ...(await rows()).map((row) => [nameOf(row), 'up ok']),
  ...table.map(([, name, state, code]) => [name, `${state} ${code}`]),
])

test('lists, single reads and the command line agree about every broken state', async () => {
  await reportUsual()
  const found = await poll(rows, (now) => JSON.stringify(shown(now)) === JSON.stringify(expected)).catch(rows)
  assert.deepEqual(shown(found), expected)
  for (const row of found) {
    const { body } = await admin('GET', pathOf(row.uri))
    assert.deepEqual([nameOf(row), body.status], [nameOf(row), row.status])
    assert.match(row.status.reason, /^\S.{5,}\.$/, 'a sentence')
  }
  const [route] = (await admin('GET', `/edges/https/${edges['e-gone'].id}/routes`)).body.https_edge_routes
  assert.deepEqual([route.status.state, route.status.code], ['down', 'servers_down'])
  const { body: listed } = await admin('GET', pathOf(edges['e-gone'].uri))
  assert.deepEqual(listed.routes[0].status, route.status)

  const { parts } = JSON.parse((await cli(['status', '-o', 'json'])).stdout)
  type Part = { part: string; name?: string; status: string; message: string }
  for (const row of found.filter(({ status }) => status.state !== 'up')) {
    const part = (parts as Part[]).find(({ name }) => name === nameOf(row))
    assert.deepEqual([nameOf(row), part?.status, part?.message], [nameOf(row), row.status.state, row.status.reason])
  }
  const named = (parts as Part[]).filter(({ name, part }) => name !== undefined && part !== 'edge nodes')
  assert.equal(named.length, table.length, 'and nothing else')
  for (const kind of ['https', 'webhook', 'domain'] as const) {
    const text = await cli.ok([...kinds[kind].field.split(' '), 'list'])
    for (const row of await listOf(kind)) {
      const line = text.split('\n').find((each) => each.includes(row.id))
      assert.match(line ?? '', new RegExp(`(^|\\s)${row.status.state}(\\s|$)`), text)
    }
  }
})

const edgeStatus = async (): Promise<Row['status']> => (await admin('GET', pathOf(edges['e-fine'].uri))).body.status
const nodeStatuses = async (): Promise<string[]> =>
  (await admin('GET', '/edge_nodes')).body.edge_nodes.map(({ status }: Row) => `${status.state} ${status.code}`)

/** What one node says, what that makes of it, and of an edge that is fine otherwise. */
const nodeFaults: readonly [name: string, fields: object | undefined, node: string, edge: string][] = [
  ['behind', { applied: 0 }, 'degraded node_behind', 'degraded node_behind'],
  ['storage fault', { storageFault: 'cannot write: ENOSPC' }, 'degraded storage_fault', 'degraded storage_fault'],
  [
    'records rejected, and the report has no room for them',
    { refused: { records: 9, lowest: 3, generations: [3, 4, 5] }, refusals: [] },
    'degraded record_refused',
    'degraded record_refused',
  ],
  [
    'an old version',
    { refused: undefined, certificates: undefined },
    'unknown record_refused',
    'unknown certificate_not_reported',
  ],
  ['away', undefined, 'down node_away', 'degraded node_away'],
]

test('what is wrong with a node shows on the node, on its edges and in the command line', async () => {
  // Ten seconds after a change, every node should have it.
  await run(db, sql`update outbox set created_at = created_at - interval '1 minute'`)
  for (const [name, fields, node, edge] of nodeFaults) {
    await report('edge-1', { health, certificates: uncovered() })
    await report('edge-2', fields && { health, certificates: uncovered(), ...fields })
    const found = await poll(
      async () => [(await nodeStatuses())[1], await edgeStatus()] as const,
      ([seen, { state, code }]) => seen === node && `${state} ${code}` === edge,
      { withinSeconds: 20 },
    ).catch(async () => [(await nodeStatuses())[1], await edgeStatus()] as const)
    assert.deepEqual([name, found[0], `${found[1].state} ${found[1].code}`], [name, node, edge])
    if (edge.startsWith('degraded')) assert.match(found[1].reason, /edge-2/)
    const { parts } = JSON.parse((await cli(['status', '-o', 'json'])).stdout)
    const part = parts.find((each: { name?: string }) => each.name === 'edge-2')
    assert.equal(part?.status, node.split(' ')[0], name)
  }
})

test("another account's page has nothing of it, and a node's report about one account is not shown to another", async () => {
  await reportUsual()
  const other = await fleet.newAccount()
  const edge = await make(other, '/edges/tcp', { hostports: ['o.example:20002'] })
  const text = JSON.stringify([(await other('GET', pathOf(edge.uri))).body, (await other('GET', '/edges/https')).body])
  for (const secret of ['e-no-tls', 'too many names', 'port 20001', admin.accountId])
    assert.ok(!text.includes(secret), secret)
})

test('a status that changes is no change of the resource: If-Match still fits, and If-None-Match notices', async () => {
  await reportUsual()
  const uri = pathOf(edges['e-fine'].uri)
  await poll(edgeStatus, ({ state }) => state === 'up')
  const before = await admin('GET', uri)
  const tag = before.headers.get('etag') ?? ''
  assert.equal((await admin('GET', uri, undefined, { headers: { 'if-none-match': tag } })).status, 304)
  await report('edge-1', { ...usual['edge-1'], storageFault: 'cannot write' })
  await poll(edgeStatus, ({ state }) => state === 'degraded')
  const after = await admin('GET', uri, undefined, { headers: { 'if-none-match': tag } })
  assert.deepEqual([after.status, after.body.status.code], [200, 'storage_fault'])
  assert.equal((await admin('PATCH', uri, { metadata: 'x' }, { headers: { 'if-match': tag } })).status, 200)
  assert.equal((await admin('PATCH', uri, { metadata: 'y' }, { headers: { 'if-match': tag } })).status, 412)
  // An edited copy of what was read goes back with its status, and those of its routes.
  const copy = await admin('PATCH', uri, { ...(await admin('GET', uri)).body, metadata: 'z' })
  assert.equal(copy.status, 200, copy.text)
  const { audit_events } = (await admin('GET', `/audit_events?resource_id=${edges['e-fine'].id}`)).body
  for (const { after: fields } of audit_events)
    assert.ok(!JSON.stringify(fields).includes('"state"'), 'no status in the audit')
})

test('without a live node, without NATS and without the database nothing is up', async () => {
  await reportUsual()
  for (const node of ['edge-1', 'edge-2'] as const) await report(node, undefined)
  const silent = await poll(edgeStatus, ({ code }) => code === 'no_live_node')
  assert.equal(silent.state, 'unknown')
  assert.deepEqual(await nodeStatuses(), ['down node_away', 'down node_away'])
  const stillDown = shown(await rows())
  assert.deepEqual([stillDown['e-no-route'], stillDown['e-gone']], ['down no_routes', 'unknown no_live_node'])

  await fleet.nats.stop()
  const blind = await poll(edgeStatus, ({ code }) => code === 'control_plane_blind')
  assert.equal(blind.state, 'unknown')
  assert.deepEqual(await nodeStatuses(), ['unknown control_plane_blind', 'unknown control_plane_blind'])
  const up = (await rows()).filter(({ status }) => status.state === 'up').map(nameOf)
  assert.deepEqual(up, [])
})
