// Domains and certificates in the dashboard, with a DNS server of our own.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newCertificate } from '../harness/certificates.ts'
import { type DnsAnswer, startDnsServer } from '../harness/dns_server.ts'
import { make } from '../harness/fixtures.ts'
import { newUser } from '../harness/principals.ts'
import { openBrowser, openPage, openTab, press, signIn, startDashboard } from './browser.ts'

const records = new Map<string, DnsAnswer>()
const dns = await startDnsServer({ after }, (name) => records.get(name))
const plane = await startDashboard({ after }, async () => ({ GATEHOUSE_DNS_SERVERS: dns.address }))
const { origin, newAccount, db } = plane
const browser = await openBrowser({ after })

test('a domain is reserved, verified with the record that its page shows, and deleted when nothing uses it', async () => {
  const admin = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/domains')
  await page.getByText('No domains yet').waitFor()
  await press(page, 'Reserve domain')
  const dialog = page.getByRole('dialog')
  await page.getByLabel('Domain', { exact: true }).fill('co.uk')
  await page.keyboard.press('Enter')
  await dialog.getByText('must not be a public suffix').waitFor()
  await page.getByLabel('Domain', { exact: true }).fill('shop.example')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'shop.example', level: 1 }).waitFor()
  await page.getByText('Not verified yet').waitFor()
  await press(page, 'Verify now')
  await page.locator('.note.warned').waitFor()
  const { body } = await admin('GET', '/reserved_domains')
  const [{ verification }] = body.reserved_domains
  for (const part of [verification.name, verification.value]) await page.getByText(part, { exact: true }).waitFor()
  records.set(verification.name, [verification.value])
  await press(page, 'Verify now')
  await page.getByText('Verified', { exact: true }).waitFor()
  await page.locator('.note.warned').waitFor({ state: 'detached' })

  const edge = await make(admin, '/edges/https', { hostports: ['www.shop.example:443'] })
  await page.reload()
  await page.getByRole('link', { name: 'www.shop.example:443' }).waitFor()
  await press(page, 'More actions > Delete domain…')
  await page.getByLabel('Type shop.example to confirm').fill('shop.example')
  await dialog.getByRole('button', { name: 'Delete domain' }).click()
  await dialog.getByText('Hostports are still under this domain').waitFor()
  await admin('DELETE', `/edges/https/${edge.id}`)
  await dialog.getByRole('button', { name: 'Delete domain' }).click()
  await page.getByText('No domains yet').waitFor()
  assert.deepEqual(page.faults, [])
})

test('a certificate is uploaded with its faults at their fields, used, replaced, and not deleted while in use', async () => {
  const admin = await newAccount()
  await make(admin, '/reserved_domains', { domain: 'mall.example' })
  const one = newCertificate(['mall.example', '*.mall.example'])
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  await page.keyboard.press('Control+k')
  await page.getByRole('menuitem', { name: 'Overview' }).waitFor()
  await page.keyboard.type('Upload cert')
  await page.getByRole('menuitem', { name: 'Upload certificate' }).waitFor()
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog', { name: 'Upload certificate' })
  await dialog.getByLabel('Certificate chain').fill(one.certificate_pem)
  await dialog.getByLabel('Private key').fill(newCertificate(['other.example']).private_key_pem)
  await dialog.getByRole('button', { name: 'Upload certificate' }).click()
  await dialog.getByText('Private key does not belong to the first certificate').waitFor()
  await dialog.getByLabel('Private key').and(page.locator(':focus')).waitFor()
  await dialog.getByLabel('Private key').fill(one.private_key_pem)
  await dialog.getByLabel('Description').fill('the mall')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'the mall', level: 1 }).waitFor()
  assert.ok(!(await page.content()).includes('PRIVATE KEY'))

  await openTab(page, 'Domains')
  await page.getByRole('link', { name: 'mall.example' }).click()
  await press(page, 'Change certificate')
  await page.getByRole('dialog').getByLabel('Certificate').selectOption({ index: 2 })
  await press(page, 'Save certificate')
  await page.getByRole('link', { name: 'the mall' }).click()
  await page.getByRole('heading', { name: 'the mall', level: 1 }).waitFor()
  await press(page, 'More actions > Delete certificate…')
  await page.getByRole('dialog').getByRole('button', { name: 'Delete certificate' }).click()
  await page.getByText('This TLS certificate is still used by').waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()

  await press(page, 'Replace')
  const unfit = newCertificate(['elsewhere.example'])
  const replacing = page.getByRole('dialog')
  await replacing.getByLabel('Certificate chain').fill(unfit.certificate_pem)
  await replacing.getByLabel('Private key').fill(unfit.private_key_pem)
  await replacing.getByRole('button', { name: 'Replace certificate' }).click()
  await replacing.getByText('it has no name of mall.example').waitFor()
  const renewed = newCertificate(['mall.example'])
  await replacing.getByLabel('Certificate chain').fill(renewed.certificate_pem)
  await replacing.getByLabel('Private key').fill(renewed.private_key_pem)
  await replacing.getByRole('button', { name: 'Replace certificate' }).click()
  await replacing.waitFor({ state: 'detached' })
  assert.deepEqual(page.faults, [])
})

test('a certificate that expires soon is on the overview and in the filtered list, and viewers are offered no change', async () => {
  const admin = await newAccount()
  await make(admin, '/tls_certificates', {
    ...newCertificate(['late.example'], { days: 60 }),
    description: 'the late one',
  })
  await make(admin, '/tls_certificates', { ...newCertificate(['fine.example']), description: 'the fine one' })
  await db.query({
    text: `update tls_certificates set not_before = now() - interval '60 days', not_after = now() + interval '3 days' where description = 'the late one'`,
  })
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  await page.getByText('Certificate the late one is degraded').waitFor()
  await page.goto(`${origin}/dashboard/certificates?show=expiring`)
  await page.getByRole('link', { name: 'the late one' }).waitFor()
  assert.equal(await page.getByRole('link', { name: 'the fine one' }).count(), 0)
  // With the keyboard alone: to the row, and to its page.
  await page.getByRole('link', { name: 'the late one' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'the late one', level: 1 }).waitFor()

  const viewer = await newUser(plane, admin, 'viewer')
  const other = await openPage(browser)
  await signIn(other, origin, viewer.token, '/certificates')
  await other.getByRole('link', { name: 'the fine one' }).waitFor()
  assert.equal(await other.getByRole('button', { name: 'Upload certificate' }).count(), 0)
  await other.getByRole('link', { name: 'the fine one' }).click()
  await other.getByRole('heading', { name: 'the fine one', level: 1 }).waitFor()
  assert.equal(await other.getByRole('button', { name: 'Replace' }).count(), 0)
  assert.deepEqual([...page.faults, ...other.faults], [])
})
