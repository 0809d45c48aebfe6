// A change that another admin approves, and that is then applied.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { make } from '../harness/fixtures.ts'
import { newIndependentAdmin } from '../harness/principals.ts'
import { inspect, type Seen } from './axe.ts'
import { openBrowser, openPage, press, signIn, startDashboard } from './browser.ts'

const { origin, newAccount, db, clientFor } = await startDashboard({ after })
const browser = await openBrowser({ after })
const author = await newAccount()
const approver = await newIndependentAdmin({ db, clientFor }, author)
const policy = await make(author, '/ip_policies', { description: 'Offices' })
await author('PUT', '/approval_policy', { required_for: ['ip_policies'] })
const seen: Seen = { light: [], dark: [] }
const descriptionOf = async () => (await author('GET', `/ip_policies/${policy.id}`)).body.description

test('a dialog says that its change was sent for approval, and another admin approves and applies it', async () => {
  const page = await openPage(browser)
  await signIn(page, origin, author.token, `/policies/${policy.id}`)
  await press(page, 'More actions')
  await page.getByRole('menuitem', { name: 'Rename' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Description').fill('Main offices')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.getByText('Sent for approval.').waitFor()
  await inspect(page, 'sent for approval', seen, '[role=dialog]')
  assert.equal(await descriptionOf(), 'Offices')
  await dialog.getByRole('link', { name: 'Show the change set' }).click()
  await page.getByText('Waiting for approval').waitFor()
  await press(page, 'Approve')
  await page.getByText('You have made this change set').waitFor()

  const other = await openPage(browser)
  await signIn(other, origin, approver.token, '/change-sets')
  await other.getByText('1 waits for approval.').waitFor()
  await other.getByRole('link', { name: 'Change an IP policy' }).click()
  await other.getByText('Main offices').first().waitFor()
  await press(other, 'Approve')
  await other.getByText(/Approved by Ada/).waitFor()
  await inspect(other, 'an approved change set', seen)
  await press(other, 'Apply')
  await other.getByText(/Applied by Ada/).waitFor()
  assert.equal(await descriptionOf(), 'Main offices')
})

test('an admin chooses what needs approval, and turning it off needs approval too', async () => {
  const alone = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, alone.token, '/change-sets')
  await page.getByRole('link', { name: 'What needs approval' }).click()
  await page.getByText('No change needs the approval of another admin.').waitFor()
  const choose = async () => {
    await press(page, 'Change approval')
    await page.getByRole('dialog').getByLabel('IP policies and their rules').click()
    await page.getByRole('dialog').getByRole('button', { name: 'Save approval' }).click()
  }
  await choose()
  await page.getByText('No other admin could approve changes.').waitFor()
  await page.keyboard.press('Escape')
  await press(page, 'Discard changes')
  await newIndependentAdmin({ db, clientFor }, alone)
  await choose()
  await page.getByText('Another admin has to approve changes of these.').waitFor()
  await page.getByText('--break-glass').waitFor()
  await inspect(page, 'approval policy', seen)
  assert.deepEqual((await alone('GET', '/approval_policy')).body.required_for, ['ip_policies'])
  await choose()
  await page.getByRole('dialog').getByText('Sent for approval.').waitFor()
  await inspect(page, 'approval dialog', seen, '[role=dialog]')
  assert.deepEqual((await alone('GET', '/approval_policy')).body.required_for, ['ip_policies'])
  assert.deepEqual(seen, { light: [], dark: [] })
})
