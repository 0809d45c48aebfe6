import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { newHttpsEdge } from '../harness/fixtures.ts'
import { openBrowser, openPage, signIn, startDashboard } from './browser.ts'

const { origin, newAccount, db } = await startDashboard({ after })
const browser = await openBrowser({ after })

test('a name held by another account is refused with a hint, and a hostport that is not in force says why', async () => {
  const [admin, other] = [await newAccount(), await newAccount()]
  await newHttpsEdge(other, { hostports: ['*.corp.example:443'] })
  const edge = await newHttpsEdge(admin, { hostports: ['mine.example:443'] })
  await run(
    db,
    sql`
    insert into refused_hostports (account_id, edge_id, hostport, position, reason)
    values (${toUuid(admin.accountId as `ac_${string}`)}, ${toUuid(edge.id)}, 'admin.corp.example:443', 1, 'overlap')`,
  )
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/edges')
  await page.getByText('1 not in force').waitFor()
  await page.getByRole('button', { name: 'Create HTTPS edge' }).click()
  await page.getByLabel('Hostports').fill('shop.corp.example:443')
  await page.getByRole('button', { name: 'Create edge' }).click()
  await page.getByText('shop.corp.example:443 overlaps a host name of another account').waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('button', { name: 'Discard changes' }).click()
  await page.getByRole('link', { name: 'mine.example:443' }).click()
  await page
    .getByText('admin.corp.example:443: another account of this installation already had an overlapping one')
    .waitFor()
  assert.deepEqual(page.faults, [])
})
