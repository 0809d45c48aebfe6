import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { poll } from '../harness/poll.ts'
import { openBrowser, openPage, signIn, startDashboard } from './browser.ts'
import { furnishRefusal } from './furnish.ts'
import { keyboardOf } from './keyboard.ts'

const { origin, newAccount, processes } = await startDashboard({ after })
const browser = await openBrowser({ after })

test('an address that a change shut out needs attention, and is allowed again after a review, by keyboard alone', async () => {
  const admin = await newAccount()
  const { statuses } = await furnishRefusal(admin, { port: processes[0]?.port ?? 0 })
  assert.deepEqual(statuses, [200, 403])
  const listed = async () => (await admin('GET', '/newly_refused_addresses')).body.newly_refused_addresses
  await poll(listed, (list) => list.length === 1)
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  const { use } = keyboardOf(page)
  const attention = page.getByRole('list', { name: 'Needs attention' })
  await attention.getByText('127.0.0.9 was let in before and is refused now').waitFor()
  // The menu says so on every page, visibly and to screen readers.
  const marked = page.getByRole('navigation', { name: 'Pages' }).getByTitle('Newly refused: Addresses were shut out')
  await marked.and(page.getByRole('link', { name: 'Newly refused', exact: true })).waitFor()
  const described = await marked.getAttribute('aria-describedby')
  assert.equal(await page.locator(`[id="${described}"]`).innerText(), 'Addresses were shut out')
  await attention.getByRole('link', { name: 'View addresses' }).press('Enter')
  await page.getByRole('heading', { name: 'Newly refused', level: 1 }).waitFor()
  const row = page.getByRole('row').filter({ hasText: '127.0.0.9' })
  await row.getByText(/^Ada replaced the rules of .*networks$/).waitFor()
  await row.getByRole('button', { name: 'Allow this address…' }).press('Enter')
  await page.getByRole('dialog').getByText('127.0.0.9/32').first().waitFor()
  await use('Save rules')
  await page.getByText('No address was shut out').waitFor()
  await marked.waitFor({ state: 'detached' })
  assert.deepEqual(await listed(), [])
  assert.deepEqual(page.faults, [])
})
