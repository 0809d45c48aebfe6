import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { holdsFor, poll } from '../harness/poll.ts'
import { sized } from '../harness/thorough.ts'
import { goTo, openBrowser, openPage, openTab, press, signIn, signOut, startDashboard } from './browser.ts'
import { furnish } from './furnish.ts'

const { origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })
const admin = await newAccount()
const { policy, edge } = await furnish(admin)

const question = (page: Page) => page.getByRole('dialog', { name: 'Discard unsaved changes?' })
const keep = (page: Page) => question(page).getByRole('button', { name: 'Keep editing' }).click()
const discard = (page: Page) => question(page).getByRole('button', { name: 'Discard changes' }).click()

/** Closes the tab as a person would, and says whether the browser asked first. The answer is to stay. */
async function closingAsks(page: Page): Promise<boolean> {
  const asked: string[] = []
  page.removeAllListeners('dialog')
  page.on('dialog', async (dialog) => {
    asked.push(dialog.type())
    await dialog.dismiss()
  })
  await page.close({ runBeforeUnload: true })
  await poll(
    () => ({ isClosed: page.isClosed(), asked }),
    ({ isClosed }) => isClosed || asked.length > 0,
  )
  assert.ok(asked.every((type) => type === 'beforeunload'))
  return asked.length > 0
}

/** Every form with a draft: how to open it, and how to change something in it. */
const forms: [path: string, button: string, change: (dialog: Locator) => Promise<unknown>][] = [
  ['/keys', 'Create key', (dialog) => dialog.getByLabel('Description').fill('changed')],
  [
    '/keys',
    'Actions for nightly backup > Rotate token…',
    (dialog) => dialog.getByLabel('Old token').selectOption('Revoke immediately'),
  ],
  ['/policies', 'Create policy', (dialog) => dialog.getByLabel('Description').fill('changed')],
  [`/policies/${policy.id}`, 'More actions > Rename', (dialog) => dialog.getByLabel('Metadata').fill('changed')],
  [`/policies/${policy.id}`, 'Add rule', (dialog) => dialog.getByLabel('Address or range').fill('10.0.0.1')],
  [`/policies/${policy.id}`, 'Import list', (dialog) => dialog.getByLabel('One range per line').fill('10.0.0.1')],
  ['/restrictions', 'Create restriction', (dialog) => dialog.getByLabel('offices').check()],
  ['/restrictions', 'Actions for offices only > Edit…', (dialog) => dialog.getByLabel('Description').fill('changed')],
  ['/edges', 'Create TCP edge', (dialog) => dialog.getByLabel('Hostports').fill('db.example:20002')],
  ['/edges', 'Create HTTPS edge', (dialog) => dialog.getByLabel('Description').fill('changed')],
  ['/backends', 'Create backend', (dialog) => dialog.getByText('Use HTTP/2').click()],
  [
    '/backends',
    'Actions for app.internal:8080 > Edit…',
    (dialog) => dialog.getByLabel('Address').fill('other.internal:8080'),
  ],
  [`/edges/${edge.id}`, 'More actions > Rename', (dialog) => dialog.getByLabel('Description').fill('changed')],
  [
    `/edges/${edge.id}`,
    'More actions > Edit hostports…',
    (dialog) => dialog.getByLabel('Hostports').fill('other.example:443'),
  ],
  [`/edges/${edge.id}`, 'Add route', (dialog) => dialog.getByLabel('Path', { exact: true }).fill('/other')],
  [
    `/edges/${edge.id}`,
    'Change the backend of app.example:443/',
    (dialog) => dialog.getByText('Forward traffic to this backend').click(),
  ],
  [
    `/edges/${edge.id}`,
    'Change allowed addresses of app.example:443/',
    (dialog) => dialog.getByLabel('All other addresses').selectOption('off'),
  ],
  [
    `/edges/${edge.id}`,
    'Change the request headers of app.example:443/',
    (dialog) => dialog.getByLabel('Value 1').fill('compute'),
  ],
]

/** And stays, each time. */
async function tryEveryWayOut(page: Page): Promise<void> {
  await page.keyboard.press('Escape')
  await keep(page)
  await page.getByRole('button', { name: 'Cancel' }).click()
  await keep(page)
  await page.getByRole('button', { name: 'Close' }).click()
  await question(page).waitFor()
  // Escape answers the question with the harmless choice.
  await page.keyboard.press('Escape')
  await question(page).waitFor({ state: 'detached' })
  // The focus returns to the form's dialog.
  await page.getByRole('dialog').locator(':focus').waitFor()
}

test('every form asks before Escape, its buttons or the browser lose a draft, and only then', async () => {
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  for (const [index, [path, button, change]] of forms.entries()) {
    if (path !== forms[index - 1]?.[0]) await goTo(page, path)
    const form = page.locator('form')
    const open = async () => {
      await press(page, button)
      await form.waitFor()
    }
    await open()
    await page.keyboard.press('Escape')
    await form.waitFor({ state: 'detached' })

    await open()
    await change(page.getByRole('dialog'))
    // All forms are the same dialog: what it does is tried with one of them, and with the others that it knows of their draft.
    if (index < sized(1, forms.length)) await tryEveryWayOut(page)
    await page.keyboard.press('Escape')
    await discard(page)
    await form.waitFor({ state: 'detached' })
    await question(page).waitFor({ state: 'detached' })
    assert.deepEqual(page.faults, [], `${path}: ${button}`)
  }
})

test('a form survives the back button until its draft is discarded', async () => {
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  await openTab(page, 'API keys')
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByLabel('Description').fill('half written')
  const url = page.url()
  await page.evaluate('history.back()')
  await keep(page)
  assert.equal(page.url(), url)
  assert.equal(await page.getByLabel('Description').inputValue(), 'half written')
  await page.evaluate('history.back()')
  await discard(page)
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  await question(page).waitFor({ state: 'detached' })
  await page.goForward()
  await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor()
  assert.equal(await page.getByRole('dialog').count(), 0)
})

test('the rules of a draft survive links, the back button, signing out and closing the tab', async () => {
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  await openTab(page, 'IP policies')
  await page.getByRole('link', { name: 'offices', exact: true }).click()
  await press(page, 'Actions for deny 127.0.0.9/32 > Remove rule')
  const draft = page.getByText('0 to add, 1 to remove. Not saved yet.')
  await draft.waitFor()

  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Audit log' }).click()
  await keep(page)
  await page.evaluate('history.back()')
  await keep(page)
  await signOut(page)
  await keep(page)
  await draft.waitFor()
  // Not ways of leaving.
  await page.getByRole('tab', { name: /^Used by/ }).click()
  await page.getByRole('tab', { name: /^Rules/ }).click()
  await page.getByRole('link', { name: 'Skip to content' }).press('Enter')
  await holdsFor(200, async () => (await question(page).count()) === 0)
  assert.equal(await closingAsks(page), true)
  await draft.waitFor()

  // A form on top of it, discarded, leaves it protected.
  await page.getByRole('button', { name: 'Add rule' }).click()
  await page.getByLabel('Address or range').fill('10.0.0.1')
  await page.keyboard.press('Escape')
  await discard(page)
  await draft.waitFor()
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Audit log' }).click()
  await discard(page)
  await page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor()
  assert.equal(await closingAsks(page), false)
})

test('after saving, nothing is asked', async () => {
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  // A form that goes to another page when it has saved.
  await openTab(page, 'IP policies')
  await page.getByRole('button', { name: 'Create policy' }).click()
  await page.getByLabel('Description').fill('partners')
  await page.getByRole('button', { name: 'Create IP policy' }).click()
  await page.getByText('No rules. This policy allows no address.').waitFor()
  // A form that only closes.
  await press(page, 'More actions > Rename')
  await page.getByLabel('Metadata').fill('team=partners')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  // A draft that is reviewed and saved.
  await page.getByRole('button', { name: 'Add rule' }).click()
  await page.getByLabel('Address or range').fill('198.51.100.0/24')
  await page.getByRole('dialog').getByRole('button', { name: 'Add rule' }).click()
  await page.getByRole('button', { name: 'Review and save' }).click()
  await page.getByRole('button', { name: 'Save rules' }).click()
  await page.getByText('Not saved yet').waitFor({ state: 'detached' })
  await openTab(page, 'API keys')
  // A form whose result is shown in its place.
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByLabel('Description').fill('deploys')
  await page.getByRole('button', { name: 'Create API key' }).click()
  await page.getByRole('button', { name: 'I have saved it' }).click()
  await openTab(page, 'Audit log')
  assert.equal(await question(page).count(), 0)
  assert.deepEqual(page.faults, [])
  assert.equal(await closingAsks(page), false)
})
