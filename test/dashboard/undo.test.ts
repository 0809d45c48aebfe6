// Seeing what a change would do before it is made, and taking it back afterwards.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import { writeOutcomes } from '../../src/access/evidence/address_outcomes.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { make } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { inspect, type Seen } from './axe.ts'
import { goTo, openBrowser, openPage, press, signIn, startDashboard, usualSize } from './browser.ts'

const { db, origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })
const admin = await newAccount()
const page = await openPage(browser)
await signIn(page, origin, admin.token)

const policy = await policyWith(admin, 'allow 10.0.0.0/8', 'allow 192.0.2.0/28')
await admin('PATCH', `/ip_policies/${policy}`, { description: 'Offices' })
const edge = await make(admin, '/edges/https', { description: 'Shop', hostports: ['shop.example:443'] })
const route = await make(admin, `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/reports/' })
const seen: Seen = { light: [], dark: [] }
const dialog = page.getByRole('dialog')
const impact = page.getByRole('region', { name: 'Impact' })
const toast = page.locator('.toast')
const routePath = `/edges/https/${edge.id}/routes/${route.id}`
const moduleOf = async () => (await admin('GET', routePath)).body.ip_restriction

/** For a look at them: GATEHOUSE_TEST_SHOTS names a folder. */
const shot = async (name: string) => {
  const folder = process.env.GATEHOUSE_TEST_SHOTS
  if (folder) await page.screenshot({ path: join(folder, `${name}.png`) })
}

async function restrict(): Promise<void> {
  await page.goto(`${origin}/dashboard/edges/${edge.id}`)
  await press(page, 'Change allowed addresses of shop.example:443/reports/')
  await dialog.getByLabel('Offices').check()
}

test('before a route is restricted, its dialog says who would be refused there, or that it is unknown', async () => {
  await restrict()
  await impact.getByText('No edge node has reported').waitFor()
  await impact.getByText('Unknown', { exact: true }).waitFor()
  const at = Date.now()
  const targetId = toUuid(route.id)
  await writeOutcomes(
    db,
    ['192.0.2.7', '203.0.113.9'].map((ip) => ({ targetId, ip, outcome: 'allowed' as const, at })),
  )
  await restrict()
  await impact.getByText('1 would be refused').waitFor()
  await impact.getByText('203.0.113.9').waitFor()
  assert.equal(await impact.getByText('192.0.2.7').count(), 0)
  await shot('restrict')
  await dialog.getByLabel('All other addresses').selectOption('Warn only: let them in, and note it')
  await impact.getByText('1 would be warned of').waitFor()
  await inspect(page, 'restrict a route', seen, '[role=dialog]')
  assert.equal(await moduleOf(), null)
})

test('a change is undone from the toast, which covers no button that saves', async () => {
  await dialog.getByLabel('All other addresses').selectOption('Refuse them')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await toast.getByRole('button', { name: 'Undo' }).waitFor()
  assert.ok(await moduleOf())
  const [box, size] = [await toast.boundingBox(), usualSize]
  assert.ok(box && box.x + box.width < size.width / 2 + 120 && box.y + box.height < size.height)
  await shot('toast')
  await inspect(page, 'toast', seen, '.toast')
  await toast.getByRole('button', { name: 'Undo' }).click()
  await poll(moduleOf, (module) => module === null)
  await toast.getByText(/^Undone\./).waitFor()
  await toast.getByRole('button', { name: 'Redo' }).waitFor()
})

test('a change in a history is taken back after a preview, or the history says what is in the way', async () => {
  const put = (ids: string[]) => admin('PUT', `${routePath}/ip_restriction`, { ip_policy_ids: ids })
  await put([policy])
  await page.goto(`${origin}/dashboard/edges/${edge.id}`)
  await page.getByRole('tab', { name: 'History' }).click()
  await page.getByLabel('Changes of').selectOption('Route /reports/')
  await page.getByRole('button', { name: 'Revert…' }).first().click()
  await impact.getByText('1 would be let in').waitFor()
  await dialog.getByText('Later ones stay').waitFor()
  await shot('revert')
  await inspect(page, 'revert', seen, '[role=dialog]')
  // Looking leaves nothing behind.
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await poll(
    async () => (await admin('GET', '/change_sets?state=draft')).body.change_sets,
    ({ length }) => length === 0,
  )
  await page.getByRole('button', { name: 'Revert…' }).first().click()
  await dialog.getByRole('button', { name: 'Revert change' }).click()
  await poll(moduleOf, (module) => module === null)
  await put([policy])
  await put([policy, await policyWith(admin, 'allow 203.0.113.9')])
  await goTo(page, `/edges/${edge.id}`)
  await page.goto(`${origin}/dashboard/audit?resource=${route.id}`)
  // The one before the newest: its module has been replaced since.
  await page.getByRole('button', { name: 'Revert…' }).nth(1).click()
  await dialog.getByText('has another ip_restriction').waitFor()
  await shot('conflict')
  assert.equal((await moduleOf()).ip_policies.length, 2)
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await inspect(page, 'audit log', seen, 'main')
})

/** Where a button of the dialog is. */
const placeOf = async (name: string) => {
  const { x, y } = (await dialog.getByRole('button', { name }).boundingBox()) ?? assert.fail(name)
  return [Math.round(x), Math.round(y)]
}
/** Answers that come later than a person reads, and with the end of a test that fails. */
async function late(t: TestContext, url: string) {
  const { promise, resolve } = Promise.withResolvers<void>()
  await page.route(url, async (request) => {
    await promise
    // The page may have been left meanwhile.
    await request.continue().catch(() => {})
  })
  const answer = async () => {
    resolve()
    await page.unroute(url)
  }
  t.after(answer)
  return answer
}

test('the buttons of a dialog stay where they are while it finds out what a change would do', async (t) => {
  await admin('DELETE', `${routePath}/ip_restriction`)
  await page.goto(`${origin}/dashboard/edges/${edge.id}`)
  await press(page, 'Change allowed addresses of shop.example:443/reports/')
  await dialog.getByLabel('Offices').waitFor()
  const before = await placeOf('Save')
  const answerTrial = await late(t, '**/ip_restriction?dry_run=true')
  await dialog.getByLabel('Offices').check()
  await impact.locator('.skeleton').first().waitFor()
  assert.deepEqual(await placeOf('Save'), before, 'before the answer')
  await answerTrial()
  await impact.getByText('1 would be refused').waitFor()
  assert.deepEqual(await placeOf('Save'), before, 'after it')

  await page.goto(`${origin}/dashboard/policies/${policy}`)
  await press(page, 'Actions for allow 192.0.2.0/28 > Remove rule')
  await page.getByRole('region', { name: 'Unsaved changes' }).getByText('1 to remove').waitFor()
  const answerImpact = await late(t, '**/impact')
  await press(page, 'Review and save')
  const waiting = await placeOf('Save rules')
  await answerImpact()
  await impact.locator('.skeleton').waitFor({ state: 'detached' })
  assert.deepEqual(await placeOf('Save rules'), waiting)

  await page.goto(`${origin}/dashboard/audit?resource=${route.id}`)
  const answerPreview = await late(t, '**/preview')
  await page.getByRole('button', { name: 'Revert…' }).first().click()
  const loading = await placeOf('Revert change')
  await answerPreview()
  await impact.waitFor()
  assert.deepEqual(await placeOf('Revert change'), loading)
  await dialog.getByRole('button', { name: 'Cancel' }).click()
})

test('to look at what undoing would do makes one draft, which goes when the dialog is closed before it is shown', async (t) => {
  const drafted: string[] = []
  page.on('request', (request) => {
    if (request.url().endsWith('/revert')) drafted.push(request.url())
  })
  const drafts = async () => (await admin('GET', '/change_sets?state=draft')).body.change_sets.length
  await admin('PATCH', `/ip_policies/${policy}`, { metadata: 'a mistake' })
  await page.goto(`${origin}/dashboard/audit?resource=${policy}`)
  const answerPreview = await late(t, '**/preview')
  await page.getByRole('button', { name: 'Revert…' }).first().click()
  await poll(drafts, (count) => count === 1)
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await answerPreview()
  await poll(drafts, (count) => count === 0)
  await page.getByRole('button', { name: 'Revert…' }).first().click()
  await dialog.getByRole('button', { name: 'Revert change' }).click()
  await dialog.waitFor({ state: 'detached' })
  assert.equal(drafted.length, 2)
})

test('on a phone, the toast and the dialogs fit, and nothing scrolls sideways', async () => {
  await page.setViewportSize({ width: 320, height: 640 })
  await restrict()
  await dialog.getByLabel('All other addresses').selectOption('Warn only: let them in, and note it')
  await impact.getByText('Shop /reports/').waitFor()
  await shot('restrict-320')
  const wide = await page.evaluate<number>('document.documentElement.scrollWidth')
  assert.ok(wide <= 320, `${wide} px`)
})

test('axe finds nothing serious', () => assert.deepEqual(seen, { light: [], dark: [] }))
