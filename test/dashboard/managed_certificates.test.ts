// Certificates that Gatehouse orders and renews, in the dashboard, with Let's Encrypt's test authority.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { makeDue, read, serveNames, writeHook } from '../acme/harness.ts'
import { make } from '../harness/fixtures.ts'
import { startChallengeServer, startPebble } from '../harness/pebble.ts'
import { poll } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import { openBrowser, openPage, openTab, press, signIn, startDashboard } from './browser.ts'

const challenges = await startChallengeServer({ after })
const pebble = await startPebble({ after }, { dnsServer: challenges.dns, httpPort: 1 })
const hook = await writeHook({ after }, challenges)
// Names are validated with the hook: there are no nodes.
const plane = await startDashboard({ after }, async () => ({
  GATEHOUSE_DNS_SERVERS: challenges.dns,
  GATEHOUSE_ACME_DIRECTORY: pebble.directoryUrl,
  GATEHOUSE_ACME_CA_FILE: pebble.caFile,
  GATEHOUSE_ACME_AGREE_TERMS: 'on',
  GATEHOUSE_ACME_CHALLENGE: 'dns-01',
  GATEHOUSE_ACME_DNS_HOOK: hook,
}))
const { origin, newAccount, db } = plane
const browser = await openBrowser({ after })

test('management is switched on, leads to a certificate, and is switched off', async () => {
  const admin = await newAccount()
  const { verification } = await make(admin, '/reserved_domains', { domain: 'shop.example' })
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/domains')
  await page.getByRole('link', { name: 'shop.example' }).click()
  await press(page, 'Change certificate')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Certificate').selectOption('Order and renew automatically')
  await dialog.getByLabel('Private key').selectOption('RSA, 2048 bits, for old clients')
  await press(page, 'Save certificate')
  await page.getByText('Ordered and renewed automatically, RSA 2048').waitFor()
  await page.getByText('Publish the TXT record and verify the domain.').waitFor()
  await challenges.setTxt(verification.name, verification.value)
  await press(page, 'Verify now')
  await page.getByText('Add a hostport under the domain to an HTTPS edge.').waitFor()
  await serveNames(admin, ['shop.example', 'www.shop.example'])
  const facts = page.getByRole('region', { name: 'Certificate' })
  await facts.getByText('Issued', { exact: true }).waitFor()
  await facts.getByText('in 2 mo').first().waitFor()
  await facts.getByText('shop.example, www.shop.example').waitFor()
  assert.equal(await page.locator('.note.warned').count(), 0)
  await openTab(page, 'Domains')
  await page.getByRole('table').getByText('Issued, renews in 2 mo').waitFor()

  await page.getByRole('link', { name: 'shop.example' }).first().click()
  await press(page, 'Change certificate')
  // Its own certificate, without renewals.
  await dialog.getByLabel('Certificate').selectOption({ index: 2 })
  await dialog.getByText('Saving ends the orders and renewals.').waitFor()
  await press(page, 'Save certificate')
  await page.getByText('Uploaded: you renew it yourself').waitFor()
  const [domain] = (await admin('GET', '/reserved_domains')).body.reserved_domains
  assert.equal(domain.certificate_management_policy, null)
  assert.notEqual(domain.certificate, null)
  assert.deepEqual(page.faults, [])
})

test('an order that failed is on the overview, in the list and on its page, with what to do', async () => {
  const admin = await newAccount()
  const managed = await make(admin, '/reserved_domains', { domain: 'mall.example' })
  const { name, value } = managed.verification
  const path = `/reserved_domains/${managed.id}`
  await challenges.setTxt(name, value)
  await admin('POST', `${path}/verify`, {})
  await serveNames(admin, ['mall.example'])
  await pebble.stop()
  await admin('PATCH', path, { certificate_management_policy: {} })
  await poll(
    () => read(admin, path),
    (domain) => domain.certificate_management_status.provisioning_job?.error_code === 'unreachable',
  )
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  const attention = page.getByRole('list', { name: 'Needs attention' })
  await attention.getByText('mall.example is down').waitFor()
  await attention.getByText(/^Obtaining its certificate fails: .*cannot be reached/).waitFor()
  await openTab(page, 'Domains')
  await page.getByText('1 certificate order failed').waitFor()
  await page.getByRole('table').getByText('Order failed').waitFor()
  await page.getByRole('link', { name: 'mall.example' }).click()
  await page.getByText('The next attempt begins by itself.').waitFor()
  await page.getByText('Next attempt', { exact: true }).waitFor()

  // A viewer reads the same, and is offered nothing to press.
  const viewer = await newUser(plane, admin, 'viewer')
  const other = await openPage(browser)
  await signIn(other, origin, viewer.token)
  await other.goto(page.url())
  await other.getByText('The next attempt begins by itself.').waitFor()
  assert.equal(await other.getByRole('button', { name: 'Try again' }).count(), 0)
  assert.equal(await other.getByRole('button', { name: 'Change certificate' }).count(), 0)

  await pebble.start()
  await press(page, 'Try again')
  await makeDue({ db }, managed)
  await page.getByRole('region', { name: 'Certificate' }).getByText('Issued', { exact: true }).waitFor()
  assert.deepEqual([...page.faults, ...other.faults], [])
})
