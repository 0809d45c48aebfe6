import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { noteToken } from '../harness/client.ts'
import { poll } from '../harness/poll.ts'
import { openBrowser, openPage, press, signIn, startDashboard } from './browser.ts'

const { origin, newAccount, clientFor } = await startDashboard({ after })
const browser = await openBrowser({ after })

test('a user is created, made an admin, deactivated and deleted; a taken email is marked where it was typed', async () => {
  const admin = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/people')
  await press(page, 'Create user')
  let dialog = page.getByRole('dialog', { name: 'Create user' })
  await dialog.getByLabel('Name').fill('Grace')
  await dialog.getByLabel('Email').fill('grace@example.com')
  await dialog.getByRole('button', { name: 'Create user' }).click()
  const row = page.getByRole('row').filter({ hasText: 'Grace' })
  await row.getByText('Member').waitFor()

  await press(page, 'Create user')
  await dialog.getByLabel('Name').fill('Another')
  await dialog.getByLabel('Email').fill('GRACE@example.com')
  await dialog.getByRole('button', { name: 'Create user' }).click()
  await dialog.locator('.field-error, [role=alert]').first().waitFor()
  await page.keyboard.press('Escape')
  await press(page, 'Discard changes')

  await press(page, 'Actions for Grace > Edit…')
  dialog = page.getByRole('dialog', { name: 'Edit Grace' })
  await dialog.getByText('Also restrictions').click()
  await dialog.getByRole('button', { name: 'Save user' }).click()
  await row.getByText('Admin').waitFor()

  const { body: users } = await admin('GET', '/users')
  const grace = users.users.find(({ name }: { name: string }) => name === 'Grace')
  const { body: key } = await admin('POST', '/api_keys', { owner_id: grace.id })
  noteToken(key.token)
  const theirs = clientFor(key.token)
  await row.getByText('Never').waitFor()
  assert.equal((await theirs('GET', '/caller')).status, 200)
  // Uses are written down a moment later.
  await poll(
    async () => (await admin('GET', `/api_keys/${key.id}`)).body.last_used_at,
    (at) => at !== null,
  )
  await page.reload()
  await row.getByText('within the last hour').waitFor()
  await press(page, 'Actions for Grace > Deactivate…')
  await press(page, 'Deactivate')
  // Exactly: 'Admin' and 'Active' together contain it.
  await row.getByText('Inactive', { exact: true }).waitFor()
  assert.equal((await theirs('GET', '/caller')).status, 401)

  await press(page, 'Actions for Grace > Delete…')
  await page.getByLabel('Type Grace to confirm').fill('Grace')
  await press(page, 'Delete user')
  await row.waitFor({ state: 'detached' })
  assert.deepEqual(page.faults, [])
})

test('a bot is created and renamed; the last admin stays one', async () => {
  const admin = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/people')
  await press(page, 'Create bot')
  await page.getByRole('dialog').getByLabel('Name').fill('deploys')
  await page.getByRole('dialog').getByRole('button', { name: 'Create bot' }).click()
  await press(page, 'Actions for deploys > Edit…')
  await page.getByRole('dialog').getByLabel('Name').fill('releases')
  await press(page, 'Save bot')
  await page.getByRole('row').filter({ hasText: 'releases' }).getByText('Bot', { exact: true }).waitFor()

  await press(page, 'Actions for Ada > Deactivate…')
  await press(page, 'Deactivate')
  await page
    .getByRole('alert')
    .getByText(/last active admin/i)
    .waitFor()
  assert.deepEqual(page.faults, [])
})
