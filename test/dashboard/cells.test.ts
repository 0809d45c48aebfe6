// Cells in the dashboard: only for those who have more than one.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { createCell } from '../../src/commands/cells/cells.ts'
import { place } from '../../src/commands/cells/placement.ts'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import type { Account } from '../harness/control_plane.ts'
import { newTcpEdge } from '../harness/fixtures.ts'
import { openBrowser, openPage, openTab, press, signIn, startAnotherDashboard, startDashboard } from './browser.ts'

const nats = await startNats()
after(() => nats.stop())
const plane = await startDashboard({ after })
const { db, newAccount } = plane
for (const name of ['eu', 'us']) await createCell(db, { name, isDefault: false, confirmed: false })
for (const [node, cell] of [
  ['near-1', 'default'],
  ['far-1', 'eu'],
  ['far-2', 'us'],
] as const) {
  const id = sql`(select id from cells where name = ${cell})`
  await run(
    db,
    sql`
    insert into fleet_nodes (nats_account, name, nats_user, node_key, cell_id) values (${node}, ${node}, 'U', 'key', ${id})`,
  )
  await run(
    db,
    sql`
    insert into edge_nodes (name, version, applied_generation, records, refusals, started_at, last_seen_at, cell_id)
    values (${node}, '0.2.0', 0, 0, '[]', now(), now() + interval '1 hour', ${id})`,
  )
}
// A process reads what nodes have reported when it starts.
const origin = await startAnotherDashboard(plane, nats.controlPlane)
const browser = await openBrowser({ after })
const placing = (account: Account, ...names: string[]) =>
  place(db, { id: toUuid(account.accountId as `ac_${string}`), name: 'it' }, names, false)
async function open(account: Account) {
  const page = await openPage(browser)
  await signIn(page, origin, account.token)
  return page
}

test('an account in two cells chooses where an edge is served, and sees its nodes by cell', async () => {
  const account = await newAccount()
  await placing(account, 'eu', 'us')
  const page = await open(account)
  await openTab(page, 'Edges')
  await press(page, 'Create TCP edge')
  await page.getByLabel('Description').fill('Orders')
  await page.getByRole('checkbox', { name: 'us' }).check()
  await press(page, 'Create edge')
  await page.getByText('Served by us', { exact: true }).waitFor()
  const { body } = await account('GET', '/edges/tcp')
  assert.deepEqual(body.tcp_edges[0].cells, ['us'])

  await press(page, 'More actions > Edit cells…')
  await page.getByRole('checkbox', { name: 'us' }).uncheck()
  await press(page, 'Save cells')
  await page.getByText('Served by eu, us (all cells)', { exact: true }).waitFor()
  assert.equal((await account('GET', `/edges/tcp/${body.tcp_edges[0].id}`)).body.cells, null)

  await openTab(page, 'Nodes')
  await page.getByRole('table', { name: 'Edge nodes of eu' }).getByText('far-1').waitFor()
  await page.getByRole('table', { name: 'Edge nodes of us' }).getByText('far-2').waitFor()
  assert.equal(await page.getByText('near-1').count(), 0, 'a node of a cell that does not serve the account')
  assert.deepEqual(page.faults, [])
})

test('an account in one cell reads nothing of cells', async () => {
  const account = await newAccount()
  const edge = await newTcpEdge(account, { description: 'Orders' })
  const page = await open(account)
  await openTab(page, 'Nodes')
  await page.getByRole('table', { name: 'Edge nodes' }).getByText('near-1').waitFor()
  assert.equal(await page.getByText('far-1').count(), 0)
  await openTab(page, 'Edges')
  await press(page, 'Create TCP edge')
  await page.getByLabel('Hostports').waitFor()
  assert.equal(await page.getByText('Cells').count(), 0)
  await press(page, 'Cancel')
  await page.goto(`${origin}/dashboard/edges/${edge.id}`)
  await page.getByRole('heading', { name: 'Orders' }).waitFor()
  assert.equal(await page.getByText('Served by').count(), 0)
  await press(page, 'More actions')
  await page.getByRole('menuitem', { name: 'Edit hostports…' }).waitFor()
  assert.equal(await page.getByRole('menuitem', { name: 'Edit cells…' }).count(), 0)
  assert.deepEqual(page.faults, [])
})
