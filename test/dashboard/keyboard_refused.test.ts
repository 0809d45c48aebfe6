// Who is refused, and letting them in, without a mouse.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { poll } from '../harness/poll.ts'
import { openBrowser, openPage, signIn, startDashboard } from './browser.ts'
import { furnishRefusal, furnishRequests } from './furnish.ts'
import { keyboardOf } from './keyboard.ts'

const { origin, newAccount, processes, db } = await startDashboard({ after })
const browser = await openBrowser({ after })

test('filtering traffic, opening a request, allowing its address, and coming back to its row', async () => {
  const admin = await newAccount()
  const { route } = await furnishRequests(db, admin)
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  const { isFocused, tabTo, use, open } = keyboardOf(page)
  await open('/traffic', 'Traffic')
  const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row')
  const link = page.getByRole('link', { name: '198.51.100.7', exact: true })
  await link.waitFor()
  await use('Refused')
  await tabTo(page.getByRole('searchbox'))
  await page.keyboard.type('198.51.100.0/24')
  await rows.filter({ hasText: '203.0.113.5' }).waitFor({ state: 'detached' })
  await tabTo(link)
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'Decision' }).getByText('No rule matches.').waitFor()
  await use('Allow this address…')
  await page.getByRole('dialog').getByText('198.51.100.7/32').first().waitFor()
  await use('Save rules')
  await page.getByText('this address would be let in now').waitFor()
  const { body } = await admin('POST', '/ip_checks', { ip: '198.51.100.7', route_id: route.id })
  assert.equal(body.allowed, true)
  await use('Close')
  await page.getByRole('region', { name: 'Decision' }).waitFor({ state: 'detached' })
  await poll(
    () => isFocused(link),
    (is) => is,
  )
  assert.deepEqual(page.faults, [])
})

test('allowing an address again that a change has shut out', async () => {
  const admin = await newAccount()
  await furnishRefusal(admin, { port: processes[0]?.port ?? 0 })
  const listed = async () => (await admin('GET', '/newly_refused_addresses')).body.newly_refused_addresses
  await poll(listed, (list) => list.length === 1)
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  const { use, open } = keyboardOf(page)
  await open('/newly-refused', 'Newly refused')
  await use('Allow this address…')
  await page.getByRole('dialog').getByText('127.0.0.9/32').first().waitFor()
  await use('Save rules')
  await page.getByText('No address was shut out').waitFor()
  assert.deepEqual(await listed(), [])
  assert.deepEqual(page.faults, [])
})
