import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { make, newTcpEdge } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { openBrowser, openPage, press, signIn, startDashboard } from './browser.ts'

const { origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })

test('an access test is created, shown with its result, changed and deleted', async () => {
  const admin = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/access-tests')
  await page.getByText('No access tests yet').waitFor()
  await page.getByRole('button', { name: 'Create access test' }).click()
  const dialog = page.getByRole('dialog')
  await page.getByLabel('Address').fill('10.0.0.0/8')
  await page.getByLabel('Description').fill('partner')
  const create = dialog.getByRole('button', { name: 'Create access test' })
  await create.click()
  await dialog.getByText('must be an IPv4 or IPv6 address').first().waitFor()
  await page.getByLabel('Address').fill('203.0.113.7')
  await create.click()
  await page.getByText('Passed').waitFor()
  await page.getByText('nothing restricts it').waitFor()
  await page.getByRole('button', { name: 'Edit partner' }).click()
  await page.getByRole('dialog').getByText('Refused').click()
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
  await page.getByText('must be refused by the API').first().waitFor()
  await page.getByRole('button', { name: 'Ignore access tests' }).click()
  await page.getByText('Failed', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Delete partner' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete access test' }).click()
  await page.getByText('No access tests yet').waitFor()
  assert.deepEqual(page.faults, [])
})

test('a dialog names the access tests that refused a change, and lets an admin go on', async () => {
  const admin = await newAccount()
  const edge = await newTcpEdge(admin, {
    description: 'database',
    ip_restriction: { ip_policy_ids: [await policyWith(admin, 'allow 10.0.0.0/8')] },
  })
  const made = await make(admin, '/access_tests', {
    ...{ address: '203.0.113.7', target: { type: 'edge', edge_id: edge.id }, expect: 'refused' },
  })
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, `/edges/${edge.id}`)
  await press(page, 'More actions > Delete edge…')
  const dialog = page.getByRole('dialog')
  const name = (await dialog.getByText(/^Type .* to confirm$/).textContent())?.slice(
    'Type '.length,
    -' to confirm'.length,
  )
  await dialog.getByLabel(/^Type /).fill(name ?? '')
  await dialog.getByRole('button', { name: 'Delete edge' }).click()
  await dialog.getByText(made.id).waitFor()
  assert.equal((await admin('GET', `/edges/tcp/${edge.id}`)).status, 200)
  await dialog.getByRole('button', { name: 'Ignore access tests' }).click()
  await poll(async () => (await admin('GET', `/edges/tcp/${edge.id}`)).status === 404)
  assert.deepEqual((await admin('GET', '/access_tests')).body.access_tests, [])
  assert.deepEqual(page.faults, [])
})
