import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { make } from '../harness/fixtures.ts'
import { openBrowser, openPage, openTab, signIn, startDashboard } from './browser.ts'
import { furnish } from './furnish.ts'

const { origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })
const admin = await newAccount()
const { policy, edge } = await furnish(admin)

test('every page opens by its URL, with or without a slash at the end', async () => {
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  for (const [path, heading, text] of [
    ['', 'Overview', 'Latest changes'],
    ['/', 'Overview', 'Latest changes'],
    ['/traffic', 'Traffic', 'No requests yet'],
    ['/keys', 'API keys', 'nightly backup'],
    ['/keys/', 'API keys', 'nightly backup'],
    ['/policies', 'IP policies', 'Create policy'],
    [`/policies/${policy.id}`, 'offices', 'Add rule'],
    [`/policies/${policy.id}/`, 'offices', 'Add rule'],
    ['/restrictions', 'IP restrictions', 'offices only'],
    ['/restrictions/ipx_0', 'IP restriction', 'This restriction no longer exists.'],
    ['/edges', 'Edges', 'Create HTTPS edge'],
    [`/edges/${edge.id}`, 'app.example:443', 'Add route'],
    ['/check?ip=127.0.0.9&target=api', 'Check an address', 'Allowed with a warning'],
    [`/audit?resource=${policy.id}`, 'Audit log', policy.id],
    ['/backends', 'Backends', 'app.internal:8080'],
    ['/nodes', 'Nodes', 'No edge nodes yet'],
    ['/nowhere', 'Page not found', 'This page does not exist.'],
  ] as const) {
    await page.goto(`${origin}/dashboard${path}`)
    await page.getByRole('heading', { name: heading, level: 1, exact: true }).waitFor()
    await page.getByText(text).first().waitFor()
    assert.equal(await page.title(), `${heading} · Gatehouse`, path)
  }
})

test('filters chosen faster than the page is drawn all stay', async () => {
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/traffic')
  await page.getByLabel('Edge', { exact: true }).getByRole('option').nth(1).waitFor({ state: 'attached' })
  // The router changes the address in microtasks; React draws in a task of its own.
  await page.evaluate(`(async () => {
    for (const each of document.querySelectorAll('button')) if (/^Refused/.test(each.textContent)) each.click()
    for (let turn = 0; turn < 100; turn++) await undefined
    const select = [...document.querySelectorAll('select')].find((each) => each.querySelector('[value="${edge.id}"]'))
    select.value = '${edge.id}'
    select.dispatchEvent(new Event('change', { bubbles: true }))
  })()`)
  await page.waitForURL(/[?&]edge=/)
  const { searchParams } = new URL(page.url())
  assert.deepEqual([searchParams.get('show'), searchParams.get('edge')], ['refused', edge.id])
  assert.deepEqual(page.faults, [])
})

test('back and forward go through pages without loading them again', async () => {
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  const documents: string[] = []
  page.on('request', (request) => {
    if (request.isNavigationRequest()) documents.push(request.url())
  })
  await openTab(page, 'IP policies')
  await page.getByRole('link', { name: 'offices', exact: true }).click()
  await page.getByRole('button', { name: 'Add rule' }).waitFor()
  assert.equal(new URL(page.url()).pathname, `/dashboard/policies/${policy.id}`)
  await page.goBack()
  await page.getByRole('button', { name: 'Create policy' }).waitFor()
  await page.goBack()
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  // Where a screen reader reads on.
  assert.equal(await page.evaluate('document.activeElement?.textContent'), 'Overview')
  await page.goForward()
  await page.goForward()
  await page.getByRole('button', { name: 'Add rule' }).waitFor()
  assert.deepEqual(documents, [])
  assert.deepEqual(page.faults, [])
})

test('a page whose chunk is gone after an upgrade says so and offers a way out', async () => {
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  await page.route('**/assets/audit-*.js', (route) => route.fulfill({ status: 404, body: '' }))
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Audit log' }).click()
  await page.getByText('This page could not be loaded.').waitFor()
  await openTab(page, 'API keys')
  await page.getByText('nightly backup').waitFor()
  await page.unroute('**/assets/audit-*.js')
  await page.goto(`${origin}/dashboard/audit`)
  await page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor()
})

test('a list longer than a page continues where it ended', async () => {
  const other = await newAccount()
  for (let made = 0; made < 60; made++) await make(other, '/backends/static', { address: `b${made}.internal:80` })
  const page = await openPage(browser)
  await signIn(page, origin, other.token)
  await openTab(page, 'Audit log')
  const changes = page.getByRole('region', { name: 'Changes' }).locator('ol.audit > li')
  await page.getByRole('button', { name: 'Show older changes' }).click()
  await page.getByRole('button', { name: 'Show older changes' }).waitFor({ state: 'detached' })
  await changes.filter({ hasText: 'b0.internal:80' }).waitFor()
  const texts = await changes.allTextContents()
  const made = texts.map((text) => /b\d+\.internal/.exec(text)?.[0]).filter((name) => name !== undefined)
  assert.deepEqual([made.length, new Set(made).size], [60, 60])
  assert.deepEqual(page.faults, [])
})
