// Finding things: the search over everything, and the tables, with the keyboard alone.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { make } from '../harness/fixtures.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import { goToAll, openBrowser, openPage, signIn, startDashboard } from './browser.ts'
import { furnish } from './furnish.ts'

const plane = await startDashboard({ after })
const { origin, newAccount } = plane
const browser = await openBrowser({ after })
const admin = await newAccount()
const { policy, backend, edge } = await furnish(admin)
const page = await openPage(browser)
await signIn(page, origin, admin.token)

async function search(text: string): Promise<void> {
  await page.keyboard.press('Control+k')
  await page.getByRole('dialog', { name: 'Search' }).waitFor()
  await page.keyboard.type(text)
}

test('what is typed while the search is still being loaded is searched for', async () => {
  const slow = await openPage(browser)
  const { promise: isReleased, resolve: release } = Promise.withResolvers<void>()
  await slow.route(/\/palette-[^/]*\.js$/, async (route) => {
    await isReleased
    await route.continue()
  })
  await signIn(slow, origin, admin.token)
  await slow.keyboard.press('Control+k')
  await slow.keyboard.type('127.0.')
  release()
  await slow.getByRole('dialog', { name: 'Search' }).waitFor()
  await slow.keyboard.type('0.22')
  await slow.getByRole('menuitem', { name: 'Traffic of 127.0.0.22' }).waitFor()
  assert.deepEqual(slow.faults, [])
})

test('the search opens pages, resources by name and by id, routes and actions', async () => {
  for (const [text, found, leadsTo] of [
    ['nodes', 'Nodes', '/nodes'],
    ['office', /^offices/, `/policies/${policy.id}`],
    [edge.id, /^app\.example:443/, `/edges/${edge.id}`],
    ['app.example:443/', /^app\.example:443\/.*Route/, `/edges/${edge.id}`],
    ['app.internal', /^app\.internal:8080/, `/backends/${backend.id}`],
  ] as const) {
    await search(text)
    await page.getByRole('menuitem', { name: found }).first().waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog', { name: 'Search' }).waitFor({ state: 'detached' })
    await page.waitForURL((url) => url.pathname === `/dashboard${leadsTo}`)
  }
  await search('create api')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog', { name: 'Create API key' }).waitFor()
  // Not while a dialog is open: it may have a draft.
  await page.keyboard.press('Control+k')
  await holdsFor(200, async () => (await page.getByRole('dialog').count()) === 1)
  await page.keyboard.press('Escape')
  // The same action on the same page again.
  await search('create api')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog', { name: 'Create API key' }).waitFor()
  await page.keyboard.press('Escape')
  assert.deepEqual(page.faults, [])
})

test('an address that is typed can be checked, and nothing found says so', async () => {
  await search('127.0.0.9')
  await page.getByRole('menuitem', { name: /^Check 127\.0\.0\.9.*this API/ }).click()
  await page.getByRole('region', { name: 'Evaluation' }).getByText('Allowed with a warning').waitFor()
  await search('no such thing')
  await page.getByText('Nothing found for “no such thing”.').waitFor()
  await page.keyboard.press('Escape')
  // Typing a slash into a field is not a shortcut.
  await page.getByLabel('Address', { exact: true }).focus()
  await page.keyboard.type('/')
  await holdsFor(200, async () => (await page.getByRole('dialog').count()) === 0)
})

test('a table sorts, filters and is walked through with arrow keys', async () => {
  await make(admin, '/api_keys', { description: 'alpha' })
  const soon = new Date(Date.now() + 86_400_000).toISOString()
  await make(admin, '/api_keys', { description: 'beta', expires_at: soon })
  await page.goto(`${origin}/dashboard/keys`)
  const names = () => page.getByRole('table', { name: 'API keys' }).getByRole('rowheader').allInnerTexts()
  const becomes = (first: string, count: number) =>
    poll(names, (shown) => shown.length === count && shown[0]?.split('\n')[0] === first)
  const head = page.getByRole('columnheader', { name: 'Key', exact: true })
  await head.getByRole('button').click()
  await becomes('alpha', 4)
  assert.equal(await head.getAttribute('aria-sort'), 'ascending')
  await head.getByRole('button').click()
  await becomes('nightly backup', 4)
  assert.equal(await head.getAttribute('aria-sort'), 'descending')

  await page.getByRole('button', { name: /^Expire this week/ }).click()
  await becomes('beta', 1)
  // The filter is in the URL, so that it can be sent to others.
  assert.equal(new URL(page.url()).searchParams.get('show'), 'expiring')
  await page.getByRole('button', { name: /^All keys/ }).click()
  await page.getByLabel('Search', { exact: true }).fill('alpha')
  await becomes('alpha', 1)
  await page.getByLabel('Search', { exact: true }).fill('')

  const menus = page.getByRole('button', { name: /^Actions for/ })
  await menus.first().focus()
  await page.keyboard.press('ArrowDown')
  await menus.nth(1).and(page.locator(':focus')).waitFor()
  await page.keyboard.press('Enter')
  await page.getByRole('menu').waitFor()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Escape')
  await page.getByRole('menu').waitFor({ state: 'detached' })
  await menus.nth(1).and(page.locator(':focus')).waitFor()
  assert.deepEqual(page.faults, [])
})

test('viewers are offered no change, anywhere', async () => {
  const viewer = await newUser(plane, admin, 'viewer')
  const backend = await make(admin, '/backends/static', { address: 'app.internal:80' })
  await make(admin, '/backends/weighted', { backends: { [backend.id]: 1 } })
  const theirs = await openPage(browser)
  await signIn(theirs, origin, viewer.token)
  const changes = /^(?:(?:Create|Add|Import|Change|Edit|Delete) |More actions|Actions for )/
  for (const open of [
    '/',
    '/keys',
    '/policies',
    `/policies/${policy.id}`,
    '/restrictions',
    '/edges',
    `/edges/${edge.id}`,
    '/backends',
    '/people',
  ]) {
    await goToAll(theirs, open)
    // The menu of a key offers to copy its id.
    const offered = await theirs.locator('main').getByRole('button', { name: changes }).count()
    assert.equal(open === '/keys' ? 0 : offered, 0, open)
    assert.equal(await theirs.getByRole('alert').count(), 0, open)
  }
  assert.deepEqual(theirs.faults, [])
})

test('members see what they can use, and nothing alarming', async () => {
  const member = await newUser(plane, admin)
  const theirs = await openPage(browser)
  await signIn(theirs, origin, member.token)
  const pages = theirs.getByRole('navigation', { name: 'Pages' })
  await pages.getByRole('link', { name: 'API keys' }).waitFor()
  assert.equal(await pages.getByRole('link', { name: /Audit|Nodes/ }).count(), 0)
  for (const hidden of ['/audit', '/nodes']) {
    await theirs.goto(`${origin}/dashboard${hidden}`)
    await theirs.getByText('Only admins can see this page').waitFor()
  }
  for (const open of [
    '/',
    '/keys',
    `/policies/${policy.id}`,
    '/restrictions',
    `/edges/${edge.id}`,
    '/backends',
    '/people',
  ]) {
    await goToAll(theirs, open)
    assert.equal(await theirs.getByRole('alert').count(), 0, open)
  }
  assert.deepEqual(theirs.faults, [])
})
