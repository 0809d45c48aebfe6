// What people do here, without a mouse: every control is reached with Tab, and used with the keys that it is used with.
// Also: searching and the palette (search.test.ts), rows and menus of rules (rules.test.ts), creating a key
// (accessibility.test.ts), and allowing an address that a change has shut out (newly_refused.test.ts).
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Locator } from 'playwright-core'
import { make } from '../harness/fixtures.ts'
import { putRules } from '../harness/ip.ts'
import { openBrowser, openPage, startDashboard } from './browser.ts'

const { origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })
const admin = await newAccount()
const page = await openPage(browser)

const isFocused = async (wanted: Locator) => (await wanted.and(page.locator(':focus')).count()) > 0

/** Presses Tab until the control has the focus. */
async function tabTo(wanted: Locator): Promise<void> {
  await wanted.waitFor()
  for (let presses = 0; presses < 80; presses++) {
    if (await isFocused(wanted)) return
    await page.keyboard.press('Tab')
  }
  assert.fail(`80 times Tab does not reach ${wanted}`)
}
const button = (name: string) => page.getByRole('button', { name, exact: true })
async function use(name: string): Promise<void> {
  await tabTo(button(name).last())
  await page.keyboard.press('Enter')
}
async function type(label: string, text: string): Promise<void> {
  await tabTo(page.getByLabel(label, { exact: true }))
  await page.keyboard.press('Control+a')
  await page.keyboard.type(text)
}
const open = async (path: string, heading: string) => {
  await page.goto(`${origin}/dashboard${path}`)
  await page.getByRole('heading', { name: heading, level: 1 }).waitFor()
}

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
  await card.getByText('This change would lock you out. Nothing was changed.').waitFor()
  await use('Allow 127.0.0.1 and save')
  await page.getByText('Enforced', { exact: true }).waitFor()
  await tabTo(toggle)
  await page.keyboard.press('Space')
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
  await use('Actions for Grace')
  const entry = page.getByRole('menuitem', { name: 'Deactivate…' })
  await entry.waitFor()
  for (let presses = 0; presses < 10 && !(await isFocused(entry)); presses++) await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await use('Deactivate')
  await page.getByRole('alertdialog').waitFor({ state: 'detached' })
  assert.deepEqual(page.faults, [])
})

test('nothing moves for those who asked for less motion', async () => {
  const moving = `[...document.querySelectorAll('*')].filter((element) => {
    const { animationName, transitionDuration } = getComputedStyle(element)
    return animationName !== 'none' || !/^(0s(, )?)+$/.test(transitionDuration)
  }).map(({ className }) => String(className))`
  for (const path of ['/', '/keys', '/restrictions']) {
    await page.goto(`${origin}/dashboard${path}`)
    await page.getByRole('heading', { level: 1 }).waitFor()
    assert.deepEqual(await page.evaluate(moving), [], path)
  }
  await use('Create restriction')
  await page.getByRole('dialog').waitFor()
  assert.deepEqual(await page.evaluate(moving), [])
  await page.emulateMedia({ reducedMotion: 'no-preference' })
  assert.notDeepEqual(await page.evaluate(moving), [], 'for others something does')
})
