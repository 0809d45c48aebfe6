import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { poll } from '../harness/poll.ts'
import { webhookEnv } from '../webhooks/environment.ts'
import { startReceiver } from '../webhooks/receiver.ts'
import { openBrowser, openPage, press, signIn, startDashboard } from './browser.ts'

const { origin, newAccount } = await startDashboard({ after }, async () => webhookEnv)
const browser = await openBrowser({ after })

test('a webhook is created, its secret shown once, tested, replayed, and deleted', async (t) => {
  const admin = await newAccount()
  let status = 410
  const receiver = await startReceiver(t, () => ({ status }))
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/webhooks')
  await page.getByRole('button', { name: 'Create webhook' }).click()
  await page.getByLabel('URL').fill('https://10.0.0.1/')
  await page.getByLabel('Description').fill('siem')
  await page.getByLabel('Operations').fill('bot_users.* users.create')
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Create webhook' }).click()
  await dialog.getByText('is in a private network').first().waitFor()
  await page.getByLabel('URL').fill(receiver.url())
  await dialog.getByRole('button', { name: 'Create webhook' }).click()
  const secret = (await page.getByLabel('Secret', { exact: true }).textContent()) ?? ''
  receiver.state.secrets.push(secret)
  await page.getByRole('button', { name: 'I have saved it' }).click()
  assert.ok(!(await page.content()).includes(secret), 'the secret is still in the page')

  await page.getByRole('link', { name: 'siem' }).click()
  await page.getByRole('heading', { name: 'siem', level: 1 }).waitFor()
  await page.getByText('Nothing was sent yet').waitFor()
  await page.getByRole('button', { name: 'Send test event' }).click()
  // The receiver says that it is gone: the webhook is disabled, and enabling it sends the event again.
  await page.getByText('Disabled', { exact: true }).first().waitFor()
  status = 204
  await press(page, 'More actions > Enable')
  await page.getByText('Delivered').first().waitFor()
  assert.equal(receiver.received[0]?.type, 'webhook_destinations.test')
  await page.getByRole('button', { name: /^Replay webhook_destinations.test/ }).click()
  await poll(() => receiver.received.length >= 2)

  await page.getByRole('tab', { name: 'Dead letters' }).click()
  await page.getByText('No dead events').waitFor()
  await press(page, 'More actions > Delete webhook…')
  await page.getByRole('dialog').getByRole('button', { name: 'Delete webhook' }).click()
  await page.getByText('No webhooks yet').waitFor()
  assert.deepEqual(page.faults, [])
})

test('the audit log can be filtered by time, operation and address', async () => {
  const admin = await newAccount()
  await admin('POST', '/ip_policies', { description: 'offices' })
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/audit')
  await page.getByText('offices').first().waitFor()
  await page.getByRole('button', { name: 'Sign-ins' }).click()
  await page.getByText('signed in to the dashboard').first().waitFor()
  await page.getByText('offices').first().waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'All changes' }).click()
  await page.getByLabel('From address').fill('198.51.100.0/24')
  await page.getByText('No matching changes').waitFor()
  await page.getByLabel('From address').fill('127.0.0.1')
  await page.getByText('offices').first().waitFor()
  assert.deepEqual(page.faults, [])
})
