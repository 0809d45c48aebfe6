// Changes that forms add to a draft, which is looked at and applied as a whole.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { movedBy, overwrittenBy, type Planned, referenceTo, without } from '../../dashboard/src/draft/changes.ts'
import { make } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { newIndependentAdmin } from '../harness/principals.ts'
import { inspect, type Seen } from './axe.ts'
import { goTo, openBrowser, openPage, press, signIn, startDashboard, type Watched } from './browser.ts'

const { db, origin, newAccount, clientFor } = await startDashboard({ after })
const browser = await openBrowser({ after })
const seen: Seen = { light: [], dark: [] }

test('taking a change out keeps references right, and takes what needs it', () => {
  const of = (id: string): Planned => ({
    operation: 'tcp_edges.backend.replace',
    parameters: { id },
    body: { backend_id: 'b' },
  })
  const made: Planned = { operation: 'tcp_edges.create' }
  const changes = [made, made, of(referenceTo(0)), of(referenceTo(1)), of(referenceTo(1))]
  assert.deepEqual(without(changes, 0), [made, of(referenceTo(0)), of(referenceTo(0))])
  assert.deepEqual(without(changes, 1), [made, of(referenceTo(0))])
  assert.deepEqual(without(changes, 3), [made, made, of(referenceTo(0)), of(referenceTo(1))])
  assert.deepEqual(movedBy(changes.slice(0, 3), 7)[2], of(referenceTo(7)))
  assert.deepEqual(
    changes.map((_, index) => overwrittenBy(changes, index)),
    [undefined, undefined, undefined, 4, undefined],
  )
})

/** For a look at them: GATEHOUSE_TEST_SHOTS names a folder. */
const shot = async (page: Watched, name: string) => {
  const folder = process.env.GATEHOUSE_TEST_SHOTS
  if (folder) await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true })
}

/** A policy with a rule, and a route that it could restrict. */
async function account() {
  const admin = await newAccount()
  const policy = await policyWith(admin, 'allow 192.0.2.0/28')
  await admin('PATCH', `/ip_policies/${policy}`, { description: 'Offices' })
  const edge = await make(admin, '/edges/https', {
    description: 'Shop',
    hostports: [`${policy.slice(-8)}.example:443`],
  })
  const route = await make(admin, `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/reports/' })
  const routePath = `/edges/https/${edge.id}/routes/${route.id}`
  return {
    ...{ admin, policy, edge, routePath },
    rules: async () =>
      (await admin('GET', `/ip_policies/${policy}/rules`)).body.rules.map(({ cidr }: { cidr: string }) => cidr),
    moduleOf: async () => (await admin('GET', routePath)).body.ip_restriction,
    sets: async () => (await admin('GET', '/change_sets')).body.change_sets,
  }
}

const addToDraft = (page: Watched) => page.getByRole('dialog').getByRole('button', { name: 'Add to draft' }).click()
const bar = (page: Watched) => page.getByText(/^Your draft: /)

async function addRule(page: Watched, policy: string, cidr: string): Promise<void> {
  await goTo(page, `/policies/${policy}`)
  await press(page, 'Add rule')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Address or range').fill(cidr)
  await dialog.getByRole('button', { name: 'Add rule' }).click()
  await press(page, 'Review and save')
  await addToDraft(page)
  await dialog.waitFor({ state: 'detached' })
}

async function rename(page: Watched, policy: string, name: string): Promise<void> {
  await goTo(page, `/policies/${policy}`)
  await press(page, 'More actions > Rename')
  await page.getByRole('dialog').getByLabel('Description').fill(name)
  await addToDraft(page)
}

test('forms add changes to one draft, which changes nothing until it is applied as a whole', async () => {
  const { admin, policy, edge, rules, moduleOf, sets } = await account()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, `/edges/${edge.id}`)
  await press(page, `Change allowed addresses of ${edge.hostports[0]}/reports/`)
  await page.getByRole('dialog').getByLabel('Offices').check()
  await shot(page, 'draft-form')
  await addToDraft(page)
  await page.getByText('Your draft: 1 change.').waitFor()
  await addRule(page, policy, '203.0.113.9/32')
  await page.getByText('Your draft: 2 changes.').waitFor()
  // What is in the draft is not an unsaved change of the page any more.
  assert.equal(await page.getByRole('region', { name: 'Unsaved changes' }).count(), 0)
  await shot(page, 'draft-bar')
  await inspect(page, 'draft bar', seen)
  assert.deepEqual([await moduleOf(), await rules()], [null, ['192.0.2.0/28']])
  await page.getByRole('link', { name: 'Review draft' }).click()
  await page.getByText('Shop /reports/').first().waitFor()
  await page.getByRole('region', { name: 'Impact' }).getByText('Unknown').first().waitFor()
  await page.getByText('203.0.113.9/32').first().waitFor()
  await shot(page, 'draft-review')
  await inspect(page, 'draft review', seen)
  await press(page, 'Apply')
  await page.getByText(/Applied by/).waitFor()
  assert.equal((await moduleOf()).ip_policies[0].id, policy)
  assert.deepEqual((await rules()).toSorted(), ['192.0.2.0/28', '203.0.113.9/32'])
  assert.equal(await bar(page).count(), 0)
  assert.equal((await sets()).length, 1)
})

test('what a form removes can be added to the draft, which says in words what it does', async () => {
  const { admin, policy, edge, routePath, moduleOf } = await account()
  await admin('PUT', `${routePath}/request_headers`, { add: { 'X-Team': 'storage' } })
  await admin('PUT', `${routePath}/ip_restriction`, { ip_policy_ids: [policy] })
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, `/edges/${edge.id}`)
  const place = `${edge.hostports[0]}/reports/`
  const dialog = page.getByRole('dialog')
  for (const [change, noun, without] of [
    ['the request headers', 'headers', 'Requests then reach the backend as clients send them.'],
    ['allowed addresses', 'restriction', 'Impact'],
  ] as const) {
    await press(page, `Change ${change} of ${place}`)
    await dialog.getByRole('button', { name: `Remove ${noun}` }).click()
    await dialog.getByText(without).waitFor()
    await shot(page, `remove-${noun}`)
    await addToDraft(page)
    await dialog.waitFor({ state: 'detached' })
  }
  await addRule(page, policy, '203.0.113.9/32')
  const { request_headers } = (await admin('GET', routePath)).body
  assert.deepEqual([request_headers.add, (await moduleOf()).ip_policies[0].id], [{ 'X-Team': 'storage' }, policy])
  await goTo(page, '/change-sets')
  await page
    .getByRole('link', {
      name: 'Remove the request headers of a route, remove the IP restriction of a route, create a rule',
    })
    .click()
  const title =
    'Remove the request headers of route /reports/ of Shop, remove the IP restriction of route /reports/ of Shop, create rule 203.0.113.9/32 of Offices'
  await page.getByRole('heading', { name: title, level: 1 }).waitFor()
  await page.getByText('3. Create rule 203.0.113.9/32 of Offices').waitFor()
  await shot(page, 'draft-words')
  await press(page, 'Apply')
  await page.getByText(/Applied by/).waitFor()
  assert.equal(await moduleOf(), null)
  // It still says what it was.
  await page.getByText('3. Create rule 203.0.113.9/32 of Offices').waitFor()
})

test('a change is taken out with those that need it, and the draft is discarded', async () => {
  const { admin, sets } = await account()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/policies')
  await press(page, 'Create policy')
  await page.getByRole('dialog').getByLabel('Description').fill('Partners')
  await addToDraft(page)
  await page.getByText('Your draft: 1 change.').waitFor()
  await goTo(page, '/edges')
  await press(page, 'Publish an application')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Host name').fill('wiki.example')
  await dialog.getByLabel('Server').fill('10.0.0.5:8080')
  await addToDraft(page)
  await page.getByText('Your draft: 4 changes.').waitFor()
  await page.getByRole('link', { name: 'Review draft' }).click()
  // The route is at the edge, and uses the server.
  await page.getByRole('button', { name: 'Take out 3 and 4' }).waitFor()
  await press(page, 'Take out 1')
  await page.getByRole('button', { name: 'Take out 2 and 3' }).waitFor()
  const [{ id }] = await sets()
  const route = (await admin('GET', `/change_sets/${id}`)).body.changes[2]
  assert.deepEqual(
    [route.parameters.edge_id, route.body.backend.backend_id],
    ['{{changes[1].id}}', '{{changes[0].id}}'],
  )
  await press(page, 'Discard draft')
  await page.getByText('No change sets yet').waitFor()
  assert.equal((await sets()).length, 0)
  assert.equal((await admin('GET', '/edges/https')).body.https_edges.length, 1)
})

test('two tabs add to one draft, and neither applies or loses what it has not seen', async () => {
  const { admin, policy, sets } = await account()
  const [first, second] = [await openPage(browser), await openPage(browser)]
  await signIn(first, origin, admin.token, '/policies')
  await signIn(second, origin, admin.token, '/policies')
  await rename(first, policy, 'One')
  await bar(first).waitFor()
  await first.getByRole('link', { name: 'Review draft' }).click()
  await first.getByRole('button', { name: 'Apply' }).waitFor()
  // The second tab has not been told of the draft yet.
  await first.route('**/change_sets/*', async (route, request) => {
    if (request.method() === 'GET') return route.abort()
    return route.continue()
  })
  await addRule(second, policy, '203.0.113.9/32')
  await second.getByText('Your draft: 2 changes.').waitFor()
  assert.equal((await sets()).length, 1)
  await first.unroute('**/change_sets/*')
  await press(first, 'Apply')
  await first.getByText('203.0.113.9/32').first().waitFor()
  assert.equal((await admin('GET', `/ip_policies/${policy}`)).body.description, 'Offices')
  await press(first, 'Apply')
  await first.getByText(/Applied by/).waitFor()
})

test('what someone else has changed meanwhile is shown before anything happens, and so it is after the draft has grown', async () => {
  const { admin, policy } = await account()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/policies')
  await rename(page, policy, 'Mine')
  await bar(page).waitFor()
  await admin('PATCH', `/ip_policies/${policy}`, { metadata: 'theirs' })
  await addRule(page, policy, '203.0.113.9/32')
  await page.getByRole('link', { name: 'Review draft' }).click()
  await page.getByText('Changed since the draft was made').waitFor()
  assert.ok(await page.getByRole('button', { name: 'Apply' }).isDisabled())
  await shot(page, 'draft-conflict')
  await inspect(page, 'draft conflict', seen)
  await press(page, 'Make these changes to what it is now')
  await page.getByText('Changed since the draft was made').waitFor({ state: 'detached' })
  await press(page, 'Apply')
  await page.getByText(/Applied by/).waitFor()
  const { description, metadata } = (await admin('GET', `/ip_policies/${policy}`)).body
  assert.deepEqual([description, metadata], ['Mine', 'theirs'])
})

test('a form says what is wrong with its own change, and a draft has none that is refused', async () => {
  const { admin, edge, sets } = await account()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, `/edges/${edge.id}`)
  await press(page, 'Add route')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Path', { exact: true }).fill('reports')
  await addToDraft(page)
  await dialog.locator('[aria-invalid=true]').waitFor()
  assert.equal(await dialog.getByText(/changes\[|Change 1/).count(), 0)
  assert.deepEqual(await sets(), [])
})

test('a draft that needs approval is sent when it is complete, and then approved by another admin', async () => {
  const { admin, policy, sets } = await account()
  const approver = await newIndependentAdmin({ db, clientFor }, admin)
  await admin('PUT', '/approval_policy', { required_for: ['ip_policies'] })
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/policies')
  await rename(page, policy, 'Main offices')
  await bar(page).waitFor()
  const other = await openPage(browser)
  await signIn(other, origin, approver.token, '/change-sets')
  await other.getByText('No change waits for approval.').waitFor()
  assert.equal(await bar(other).count(), 0)
  await page.getByRole('link', { name: 'Review draft' }).click()
  await press(page, 'Send for approval')
  await page.getByText('Waiting for approval').waitFor()
  await goTo(page, '/policies')
  await poll(
    () => bar(page).count(),
    (count) => count === 0,
  )
  const [{ id }] = await sets()
  await goTo(other, `/change-sets/${id}`)
  await press(other, 'Approve')
  await other.getByText(/Approved by Ada/).waitFor()
  await press(other, 'Apply')
  await other.getByText(/Applied by Ada/).waitFor()
  assert.equal((await admin('GET', `/ip_policies/${policy}`)).body.description, 'Main offices')
})

test('axe finds nothing serious', () => assert.deepEqual(seen, { light: [], dark: [] }))
