import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { policyWith } from '../harness/ip.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { isThorough } from '../harness/thorough.ts'
import { inspect, type Seen, themes } from './axe.ts'
import { goTo, openBrowser, openPage, press, signIn, startDashboard, usualSize } from './browser.ts'
import { furnish, furnishAlerts, furnishHealth, furnishRefusal, furnishRequests } from './furnish.ts'

const { origin, newAccount, processes, db } = await startDashboard({ after })
const browser = await openBrowser({ after })

const admin = await newAccount()
const { policy, backend, edge, domain, certificate, pages } = await furnish(admin)
await furnishHealth(db, admin, backend.id)
await furnishAlerts(db, admin, { backend: backend.id, certificate: certificate.id })

test('every page of the menu and of a dialog is among those that are inspected', async () => {
  const source = await readFile(new URL('../../dashboard/src/pages.tsx', import.meta.url), 'utf8')
  const listed = [...source.matchAll(/^ {4}path: '([^']+)'/gm)].map(([, path = '']) => path)
  assert.ok(listed.length > 10, `${listed.length} pages found`)
  const inspected = pages.map((path) => path.replace(/[?].*/, ''))
  assert.deepEqual(
    listed.filter((path) => !inspected.includes(path)),
    [],
  )
  assert.deepEqual(
    dialogs.filter(([path]) => !pages.includes(path)),
    [],
  )
})

const dialogs: [path: string, button: string | RegExp][] = [
  ['/keys', 'Create key'],
  ['/keys', 'Actions for nightly backup > Delete key…'],
  ['/keys', 'Actions for nightly backup > Rotate token…'],
  ['/keys', 'Actions for nightly backup > Edit key…'],
  [`/policies/${policy.id}`, 'Add rule'],
  [`/policies/${policy.id}`, 'Actions for deny 127.0.0.9/32 > Edit rule…'],
  [`/policies/${policy.id}`, 'Import list'],
  ['/check?ip=127.0.0.9&target=api', 'Change rule…'],
  ['/webhooks', 'Create webhook'],
  ['/alerts', 'Create alert rule'],
  ['/alerts', 'Add destination'],
  ['/alerts', 'Test late renewals'],
  ['/alerts', 'Actions for late renewals > Silence…'],
  ['/alerts', 'Actions for late renewals > Delete rule…'],
  ['/domains', 'Reserve domain'],
  [`/domains/${domain.id}`, 'Change certificate'],
  [`/domains/${domain.id}`, 'More actions > Delete domain…'],
  ['/certificates', 'Upload certificate'],
  [`/certificates/${certificate.id}`, 'Replace'],
  [`/certificates/${certificate.id}`, 'More actions > Delete certificate…'],
  ['/backends', 'Create backend'],
  ['/backends', 'Create group or response > Weighted backend…'],
  ['/backends', 'Create group or response > HTTP response…'],
  ['/people', 'Create user'],
  [`/backends/${backend.id}`, 'Add server'],
  ['/edges', 'Create HTTPS edge'],
  ['/edges', 'Publish an application'],
  ['/access-tests', 'Create access test'],
  ['/access-tests', 'Delete partner'],
  ['/restrictions', 'Create restriction'],
  ['/restrictions', 'Actions for offices only > Edit…'],
  [`/edges/${edge.id}`, 'Change the request headers of app.example:443/'],
  [`/edges/${edge.id}`, 'Change the backend of app.example:443/'],
]

/** Requests of every outcome beside one with the way to its decision, and the change that another offers. */
async function inspectRequest(page: Page, seen: Seen): Promise<void> {
  const [unmatched, denied] = (await furnishRequests(db, admin)).requestIds
  await goTo(page, `/traffic/${denied}`)
  await page.getByRole('region', { name: 'Decision' }).getByText('abuse').waitFor()
  await page.getByRole('table', { name: 'Requests' }).getByText('Limited').waitFor()
  await inspect(page, 'a request and the rule that refused it', seen)
  await page.goto(`${origin}/dashboard/traffic/${unmatched}`)
  await page.getByRole('region', { name: 'Decision' }).getByText('No rule matches.').waitFor()
  await press(page, 'Allow this address…')
  await page.getByRole('dialog').getByText('198.51.100.7/32').first().waitFor()
  await inspect(page, 'a request: Allow this address…', seen, '.modal')
}

/** Rules that never decide, and the review of their removal. */
async function inspectEvidence(page: Page, seen: Seen): Promise<void> {
  const id = await policyWith(admin, 'allow 10.0.0.0/8', 'allow 10.1.0.0/16', 'deny 192.0.2.0/24', 'allow 192.0.2.7')
  await goTo(page, `/policies/${id}`)
  await press(page, 'Never decides 2')
  await page.getByText('Shadowed by').waitFor()
  await inspect(page, 'rules that never decide', seen)
  await press(page, 'Remove these 2 rules')
  await press(page, 'Review and save')
  await page.getByRole('dialog').getByText('2 removed').waitFor()
  await inspect(page, 'the review of a draft', seen, '.modal')
}

/** In an account of its own: what refuses the address would get in the way of the other pages. */
async function inspectRefusal(seen: Seen): Promise<void> {
  const account = await newAccount()
  await furnishRefusal(account, { port: processes[0]?.port ?? 0 })
  await poll(
    async () => (await account('GET', '/newly_refused_addresses')).body.newly_refused_addresses,
    (list) => list.length > 0,
  )
  const page = await openPage(browser)
  await signIn(page, origin, account.token)
  // Loaded again: the end of signing in is announced by the name of a button that is gone.
  await page.goto(`${origin}/dashboard/`)
  await page.getByRole('list', { name: 'Needs attention' }).waitFor()
  await page.locator('.skeleton').first().waitFor({ state: 'detached' })
  await inspect(page, 'what needs attention', seen)
  await goTo(page, '/newly-refused')
  await page.getByRole('row').filter({ hasText: '127.0.0.9' }).waitFor()
  await inspect(page, '/newly-refused', seen)
  await press(page, 'Allow this address…')
  await page.getByRole('dialog').waitFor()
  await inspect(page, '/newly-refused: Allow this address…', seen, '.modal')
  assert.deepEqual(page.faults, [])
}

const overflow = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'

/** 720 px is a window of 1440 px at 200 % zoom; 320 px is what WCAG asks for, and narrower than a phone. */
async function inspectWidths(page: Page, path: string): Promise<void> {
  for (const width of [720, 320]) {
    await page.setViewportSize({ width, height: 844 })
    // Something that moves while the page settles may stick out for a moment.
    await poll(
      async () => `${path} is ${await page.evaluate(overflow)} px too wide for ${width}`,
      (found) => found.includes(' is 0 px too wide'),
      { withinSeconds: 10 },
    )
  }
  await page.setViewportSize(usualSize)
}

async function inspectDialog(page: Page, index: number, seen: Seen): Promise<void> {
  const [path, button] = dialogs[index] ?? assert.fail()
  await press(page, button)
  await page.getByRole('dialog').waitFor()
  // They are made of the same parts: one theme for each, in turn, shows the colors of both.
  await inspect(page, `${path}: ${button}`, seen, '.modal', isThorough ? themes : [themes[index % 2] ?? 'light'])
  // A dialog covers a phone, and a window at 200 % zoom; it must not be wider than either.
  for (const width of [720, 390]) {
    await page.setViewportSize({ width, height: 844 })
    const wider = await page.evaluate<number>(`document.querySelector('.modal').scrollWidth - innerWidth`)
    assert.ok(wider <= 0, `${path}: ${button} is ${wider} px too wide for ${width}`)
  }
  await page.setViewportSize(usualSize)
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
}

/** Each page is opened once for all that is to be seen on it. */
async function inspectEverything(): Promise<Seen> {
  const seen: Seen = { light: [], dark: [] }
  const page = await openPage(browser)
  await page.goto(`${origin}/dashboard/`)
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await inspect(page, 'sign in', seen)
  await signIn(page, origin, admin.token)
  // The first is loaded again, without the announcement of the sign-in.
  for (const path of pages) {
    await goTo(page, path)
    await page.locator('.skeleton').first().waitFor({ state: 'detached' })
    await inspect(page, path, seen)
    await inspectWidths(page, path)
    for (const [index, [of]] of dialogs.entries()) if (of === path) await inspectDialog(page, index, seen)
  }
  await inspectRequest(page, seen)
  await inspectEvidence(page, seen)
  await page.goto(`${origin}/dashboard/keys`)
  await page.getByRole('button', { name: 'Actions for nightly backup' }).click()
  await page.getByRole('menu').waitFor()
  await inspect(page, 'the menu of a row', seen)
  await page.keyboard.press('Escape')
  await page.keyboard.press('Control+k')
  await page.getByRole('menuitem', { name: 'Overview' }).waitFor()
  await inspect(page, 'the search', seen)
  await inspectRefusal(seen)
  assert.deepEqual(page.faults, [])
  return seen
}

test('axe finds nothing serious on any page or dialog, and none is too wide for a phone or at 200 % zoom', async () => {
  assert.deepEqual(await inspectEverything(), { light: [], dark: [] })
})

test('a phone has a menu', async () => {
  const page = await openPage(browser, { viewport: { width: 390, height: 844 }, hasTouch: true })
  await signIn(page, origin, admin.token)
  await page.getByRole('button', { name: 'Menu' }).tap()
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'API keys' }).tap()
  await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor()
})

test('a key is created with the keyboard alone', async () => {
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/keys')
  const create = page.getByRole('button', { name: 'Create key' })
  await create.waitFor()
  const isThere = () => page.evaluate<boolean>("document.activeElement?.textContent === 'Create key'")
  for (let presses = 0; presses < 40 && !(await isThere()); presses++) await page.keyboard.press('Tab')
  assert.ok(await isThere())
  await page.keyboard.press('Enter')
  await page.keyboard.type('made by hand')
  await page.keyboard.press('Enter')
  await page.getByRole('alertdialog').waitFor()
  // The focus stays in what must be answered.
  for (let presses = 0; presses < 12; presses++) await page.keyboard.press('Tab')
  assert.ok(await page.evaluate('document.querySelector("[role=alertdialog]").contains(document.activeElement)'))
  await page.keyboard.press('Escape')
  // A token that is shown once must not go away by Escape.
  await holdsFor(200, () => page.getByRole('alertdialog').isVisible())
  await page.getByRole('button', { name: 'I have saved it' }).press('Enter')
  await page.getByRole('row').filter({ hasText: 'made by hand' }).waitFor()
})
