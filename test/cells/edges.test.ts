// Which cells serve an edge, and what an account learns of them.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createCell } from '../../src/commands/cells/cells.ts'
import { place } from '../../src/commands/cells/placement.ts'
import { many } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { cliFor } from '../cli/harness.ts'
import { stateFile } from '../cli/state_harness.ts'
import type { Answer } from '../harness/client.ts'
import { type Account, startControlPlane } from '../harness/control_plane.ts'
import { assertRefused, freshHost, make, newHttpsEdge, newRoute, newTcpEdge } from '../harness/fixtures.ts'
import { newUser } from '../harness/principals.ts'

const plane = await startControlPlane({ after })
for (const name of ['eu', 'us', 'hidden']) await createCell(plane.db, { name, isDefault: false, confirmed: false })

const placeIn = (account: Account, ...cells: string[]) =>
  place(plane.db, { id: toUuid(account.accountId as `ac_${string}`), name: 'it' }, cells, false)
const placedAccount = async (...cells: string[]) => {
  const account = await plane.newAccount()
  await placeIn(account, ...cells)
  return account
}
const recordsOf = async ({ headers }: Answer): Promise<string[]> =>
  (
    await many<{ key: string }>(
      plane.db,
      sql`select key from outbox where generation = ${headers.get('service-generation')} order by key`,
    )
  ).map(({ key }) => key)

for (const path of ['/edges/tcp', '/edges/https'] as const)
  test(`an edge of ${path} is served by all cells of its account until it names some`, async () => {
    const account = await placedAccount('eu', 'us')
    const edge = await make(account, path)
    assert.equal(edge.cells, null)
    const named = await make(account, path, { cells: ['us', 'eu'] })
    assert.deepEqual(named.cells, ['us', 'eu'])
    assert.deepEqual((await account('PATCH', edge.uri, { cells: ['eu'] })).body.cells, ['eu'])
    assert.deepEqual((await account('PATCH', edge.uri, { description: 'x' })).body.cells, ['eu'], 'omitted, it stays')
    assert.deepEqual((await account('GET', edge.uri)).body.cells, ['eu'])
    const { body } = await account('GET', path)
    const [listed] = Object.values(body).find(Array.isArray) ?? []
    assert.deepEqual(listed.cells, ['us', 'eu'])
    assert.equal((await account('PATCH', edge.uri, { cells: null })).body.cells, null)

    assertRefused(await account('POST', path, { cells: [] }), 400, 'ERR_INVALID_FIELD', 'cells')
    assertRefused(await account('POST', path, { cells: 'eu' }), 400, 'ERR_INVALID_FIELD', 'cells')
    assertRefused(await account('POST', path, { cells: ['eu', 'eu'] }), 400, 'ERR_INVALID_FIELD', 'cells[1]')
  })

test('a cell that does not serve the account is refused like one that does not exist', async () => {
  const account = await placedAccount('eu', 'us')
  const told = ({ status, body }: Answer) => {
    const { operation_id: _, ...details } = body.details
    return { status, ...body, details }
  }
  for (const path of ['/edges/tcp', '/edges/https']) {
    const { uri } = await make(account, path)
    for (const send of [
      (name: string) => account('POST', path, { cells: ['eu', name] }),
      (name: string) => account('PATCH', uri, { cells: ['eu', name] }),
    ]) {
      const refused = await send('hidden')
      assertRefused(refused, 400, 'ERR_INVALID_FIELD', 'cells[1]')
      assert.match(refused.body.msg, /must be a cell of this account: eu, us/)
      assert.deepEqual(told(await send('no-such-cell')), told(refused))
      assert.deepEqual(told(await send('default')), told(refused), 'it is placed elsewhere')
    }
    assert.equal((await account('GET', uri)).body.cells, null, 'nothing has changed')
  }
})

test('GET /cells lists the cells of the account, and how many nodes they have only to admins', async () => {
  const cells = async (account: Account) => (await account('GET', '/cells')).body.cells
  const elsewhere = await plane.newAccount()
  assert.deepEqual(await cells(elsewhere), [{ name: 'default', live_nodes: 0, counted_nodes: null }])
  const account = await placedAccount('us', 'eu')
  assert.deepEqual(await cells(account), [
    { name: 'eu', live_nodes: 0, counted_nodes: null },
    { name: 'us', live_nodes: 0, counted_nodes: null },
  ])
  const member = await newUser(plane, account)
  assert.deepEqual((await member('GET', '/cells')).body.cells, [
    { name: 'eu', live_nodes: null, counted_nodes: null },
    { name: 'us', live_nodes: null, counted_nodes: null },
  ])
})

test('changing the cells of an edge sends it and all of its routes, and nothing else does', async () => {
  const account = await placedAccount('eu', 'us')
  const edge = await newHttpsEdge(account, { hostports: [`${freshHost()}:443`] })
  const routes = [await newRoute(account, {}, edge), await newRoute(account, {}, edge)]
  const all = [`https.${edge.id}`, ...routes.map(({ id }) => `route.${id}`).sort()]
  assert.deepEqual(await recordsOf(await account('PATCH', edge.uri, { cells: ['eu'] })), all)
  assert.deepEqual(await recordsOf(await account('PATCH', edge.uri, { description: 'x' })), all.slice(0, 1))
  const same = await account('PATCH', edge.uri, { cells: ['eu'] })
  assert.equal(same.headers.get('service-generation'), null, 'no change, no generation')
  assert.deepEqual(await recordsOf(await account('PATCH', edge.uri, { cells: null })), all)

  const tcp = await newTcpEdge(account)
  assert.deepEqual(await recordsOf(await account('PATCH', tcp.uri, { cells: ['us'] })), [`tcp.${tcp.id}`])
})

test('an account sees in its audit where it was placed', async () => {
  const account = await placedAccount('eu', 'us')
  const { body } = await account('GET', '/audit_events')
  const [event] = body.audit_events
  assert.equal(event.operation, 'server.cells.place')
  assert.deepEqual([event.before, event.after], [{ cells: ['default'] }, { cells: ['eu', 'us'] }])
})

test('the command line sets the cells of an edge, and a state file keeps them', async () => {
  const account = await placedAccount('eu', 'us')
  const cli = cliFor(plane, account)
  assert.equal(await cli.ok(['account-cells', 'list', '--output', 'ids']), 'eu\nus\n')
  await cli.ok(['edges', 'tcp', 'create', '--description', 'named', '--cells', 'us', '--cells', 'eu'])
  await cli.ok(['edges', 'https', 'create', '--description', 'everywhere'])
  const dumped = await cli.ok(['state', 'dump'])
  assert.equal((await cli(['state', 'diff', await stateFile(dumped)])).code, 0)
  assert.deepEqual(dumped.match(/cells:.*/g)?.length, 1, 'only where it names some')

  const copy = await placedAccount('eu', 'us')
  await cliFor(plane, copy).ok(['state', 'apply', await stateFile(dumped)])
  const cellsOf = async (as: Account, path: string) =>
    Object.values((await as('GET', path)).body).find(Array.isArray)?.[0].cells
  assert.deepEqual(await cellsOf(copy, '/edges/tcp'), ['us', 'eu'])
  assert.equal(await cellsOf(copy, '/edges/https'), null)
  const elsewhere = await cliFor(plane, await plane.newAccount())(['state', 'apply', await stateFile(dumped)])
  assert.match(elsewhere.stderr, /must be a cell of this account: default/)
})
