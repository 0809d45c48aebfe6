// What people do here, without a mouse. Also: traffic and who is refused (keyboard_refused.test.ts), searching and the
// palette (search.test.ts), rows and menus of rules (rules.test.ts), and creating a key (accessibility.test.ts).
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newCertificate } from '../harness/certificates.ts'
import { type DnsAnswer, startDnsServer } from '../harness/dns_server.ts'
import { make } from '../harness/fixtures.ts'
import { putRules } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { goTo, openBrowser, openPage, startDashboard } from './browser.ts'
import { keyboardOf } from './keyboard.ts'

const records = new Map<string, DnsAnswer>()
const dns = await startDnsServer({ after }, (name) => records.get(name))
const { origin, newAccount } = await startDashboard({ after }, async () => ({ GATEHOUSE_DNS_SERVERS: dns.address }))
const browser = await openBrowser({ after })
const admin = await newAccount()
const page = await openPage(browser)

const { tabTo, use, type, choose, open } = keyboardOf(page)

test('signing in', async () => {
  await page.goto(`${origin}/dashboard/`)
  await type('API key', admin.token)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
})

test('creating a policy, pasting rules, and reviewing and saving the draft', async () => {
  await open('/policies', 'IP policies')
  await use('Create policy')
  await type('Description', 'by hand')
  await use('Create IP policy')
  await page.getByText('No rules. This policy allows no address.').waitFor()
  await use('Import list')
  await tabTo(page.getByLabel('One range per line'))
  await page.keyboard.insertText('allow 192.0.2.0/24\nallow 198.51.100.7')
  await use('Import as draft')
  await page.getByText('2 to add, 0 to remove. Not saved yet.').waitFor()
  await use('Review and save')
  await use('Save rules')
  await page.getByRole('heading', { name: '2 rules' }).waitFor()
  await page.getByText('Not saved yet').waitFor({ state: 'detached' })
})

test('creating a restriction, enforcing it, the way out of a lockout, and only warning again', async () => {
  const policy = await make(admin, '/ip_policies', { description: 'offices' })
  await putRules(admin, policy.id, ['allow 10.0.0.0/8'])
  await open('/restrictions', 'IP restrictions')
  await use('Create restriction')
  await type('Description', 'offices only')
  await tabTo(page.getByLabel('offices'))
  await page.keyboard.press('Space')
  await use('Create with warnings only')
  const card = page.getByRole('article', { name: 'offices only' })
  const toggle = card.getByRole('switch')
  await tabTo(toggle)
  await page.keyboard.press('Space')
  await use('Enforce restriction')
  await page.getByText('This change would lock you out. Nothing was changed.').waitFor()
  await use('Allow 127.0.0.1 and save')
  await page.getByText('Enforced', { exact: true }).waitFor()
  await tabTo(toggle)
  await page.keyboard.press('Space')
  await use('Only warn')
  await page.getByText('Warns only', { exact: true }).waitFor()
})

test('creating an edge and a route', async () => {
  await open('/edges', 'Edges')
  await use('Create HTTPS edge')
  await type('Hostports', 'keys.example:443')
  await use('Create edge')
  await page.getByRole('heading', { name: 'keys.example:443', level: 1 }).waitFor()
  await use('Add route')
  await type('Path', '/app')
  await use('Save route')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.getByText('/app').first().waitFor()
})

test('checking an address', async () => {
  await open('/check', 'Check an address')
  await type('Address', '10.1.2.3')
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'Evaluation' }).waitFor()
})

test('creating a webhook', async () => {
  await open('/webhooks', 'Webhooks')
  await use('Create webhook')
  await type('URL', 'https://hooks.invalid/audit')
  await use('Create webhook')
  await page.getByText('hooks.invalid').first().waitFor()
})

test('creating a user, and deactivating them with the menu of the row', async () => {
  await open('/people', 'People and bots')
  await use('Create user')
  await type('Name', 'Grace')
  await type('Email', 'grace@example.com')
  await use('Create user')
  await use('I have copied it')
  await choose('Actions for Grace', 'Deactivate…')
  await use('Deactivate')
  await page.getByRole('alertdialog').waitFor({ state: 'detached' })
  assert.deepEqual(page.faults, [])
})

test('editing a key', async () => {
  const key = await make(admin, '/api_keys', { description: 'nightly' })
  await open('/keys', 'API keys')
  await choose('Actions for nightly', 'Edit key…')
  await type('Description', 'weekly')
  await type('Allowed addresses', '192.0.2.0/24')
  await use('Save key')
  await page.getByRole('row').filter({ hasText: 'weekly' }).waitFor()
  assert.deepEqual((await admin('GET', `/api_keys/${key.id}`)).body.allowed_cidrs, ['192.0.2.0/24'])
})

test('reserving a domain and verifying it', async () => {
  await open('/domains', 'Domains')
  await use('Reserve domain')
  await type('Domain', 'keyboard.example')
  await use('Reserve domain')
  await page.getByRole('heading', { name: 'keyboard.example', level: 1 }).waitFor()
  const { body } = await admin('GET', '/reserved_domains')
  const [{ verification }] = body.reserved_domains
  records.set(verification.name, [verification.value])
  await use('Verify now')
  await page.getByText('Verified', { exact: true }).waitFor()
})

test('uploading a certificate', async () => {
  const { certificate_pem, private_key_pem } = newCertificate(['keyboard.example'])
  await open('/certificates', 'Certificates')
  await use('Upload certificate')
  await type('Certificate chain', certificate_pem)
  await type('Private key', private_key_pem)
  await type('Description', 'by keyboard')
  await use('Upload certificate')
  await page.getByRole('heading', { name: 'by keyboard', level: 1 }).waitFor()
})

test('filtering the audit log by time, address, resource and kind of change', async () => {
  const policy = await make(admin, '/ip_policies', { description: 'filtered' })
  await admin('PATCH', `/ip_policies/${policy.id}`, { description: 'filtered twice' })
  await open('/audit', 'Audit log')
  const events = page.getByRole('region', { name: 'Changes' }).getByRole('listitem')
  const kinds = () => events.locator('.badge').allInnerTexts()
  await tabTo(page.getByLabel('Time', { exact: true }))
  await page.keyboard.press('ArrowDown')
  await type('From address', '127.0.0.0/8')
  await type('Resource', policy.id)
  await poll(kinds, (shown) => shown.join() === 'Changed,Created')
  await use('Changed')
  await poll(kinds, (shown) => shown.join() === 'Changed')
  assert.deepEqual(Object.fromEntries(new URL(page.url()).searchParams), {
    since: 'hour',
    from: '127.0.0.0/8',
    resource: policy.id,
    operation: '*.update',
  })
  assert.deepEqual(page.faults, [])
})

test('nothing moves for those who asked for less motion', async () => {
  const moving = `[...document.querySelectorAll('*')].filter((element) => {
    const { animationName, transitionDuration } = getComputedStyle(element)
    return animationName !== 'none' || !/^(0s(, )?)+$/.test(transitionDuration)
  }).map(({ className }) => String(className))`
  for (const path of ['/', '/keys', '/restrictions']) {
    await goTo(page, path)
    assert.deepEqual(await page.evaluate(moving), [], path)
  }
  await use('Create restriction')
  await page.getByRole('dialog').waitFor()
  assert.deepEqual(await page.evaluate(moving), [])
  await page.emulateMedia({ reducedMotion: 'no-preference' })
  assert.notDeepEqual(await page.evaluate(moving), [], 'for others something does')
})
