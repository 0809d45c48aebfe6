// In the dashboard, an HTTPS edge is given authorities of clients, in a field and from a file.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { clientAuthority1, clientAuthority2 } from '../harness/client_authorities.ts'
import { newHttpsEdge } from '../harness/fixtures.ts'
import { openBrowser, openPage, signIn, startDashboard } from './browser.ts'

const { origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })
const admin = await newAccount()
const edge = await newHttpsEdge(admin)
const page = await openPage(browser)
await signIn(page, origin, admin.token)
const dialog = page.getByRole('dialog')
const moduleNow = async () => (await admin('GET', `/edges/https/${edge.id}`)).body.mutual_tls

async function edit(): Promise<void> {
  await page.goto(`${origin}/dashboard/edges/${edge.id}`)
  await page.getByRole('button', { name: /^Change the client certificates of/ }).click()
  await dialog.waitFor()
}
async function press(name: string): Promise<void> {
  await dialog.getByRole('button', { name, exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
}

test('authorities are set, changed, shown and removed, and what is none is refused before it is sent', async () => {
  await edit()
  const field = dialog.getByLabel('Certificates of the authorities (PEM)')
  const save = dialog.getByRole('button', { name: 'Save', exact: true })
  await field.fill('not a certificate')
  await dialog.getByText('It must be certificates in PEM form').waitFor()
  assert.equal(await save.isDisabled(), true)
  await field.fill(clientAuthority1.repeat(2))
  await save.click()
  await dialog
    .getByText(/repeats number 1/)
    .first()
    .waitFor()
  await field.fill(clientAuthority1)
  await dialog.locator('input[type=file]').setInputFiles({
    ...{ name: 'second.pem', mimeType: 'application/x-pem-file', buffer: Buffer.from(clientAuthority2) },
  })
  await dialog.getByLabel('Clients without a certificate').selectOption('optional')
  await press('Save')
  await page.getByText(/^Optional, issued by/).waitFor()
  const both = [clientAuthority1, clientAuthority2]
  const shown = await moduleNow()
  assert.deepEqual([shown.enabled, shown.mode, shown.certificate_authorities], [true, 'optional', both])

  await edit()
  await dialog.getByLabel('Clients without a certificate').selectOption('required')
  await dialog.getByText('Apply to traffic').click()
  await press('Save')
  const changed = await moduleNow()
  assert.deepEqual([changed.enabled, changed.mode, changed.certificate_authorities], [false, 'required', both])

  await edit()
  await dialog.getByRole('button', { name: /^Remove/ }).click()
  await dialog.getByText('Clients are then let in without a certificate.').waitFor()
  await dialog.getByRole('button', { name: /^Remove/ }).click()
  await dialog.waitFor({ state: 'detached' })
  assert.equal(await moduleNow(), null)
})

test('nothing went wrong on the page', () => assert.deepEqual(page.faults, []))
