// The page of a backend: what uses it, its servers, and another server beside the first as one change, in six clicks.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { freshHost, make, newBackend } from '../harness/fixtures.ts'
import { newUser } from '../harness/principals.ts'
import { goTo, openBrowser, openPage, openTab, press, signIn, startDashboard } from './browser.ts'

const plane = await startDashboard({ after })
const { origin, newAccount } = plane
const browser = await openBrowser({ after })
const admin = await newAccount()
const one = await newBackend(admin, {
  ...{ address: 'one.internal:80', description: 'shop', tls: { enabled: true } },
  health_check: { type: 'http', path: '/healthz' },
})
const edge = await make(admin, '/edges/https', { description: 'Storefront', hostports: [`${freshHost()}:443`] })
const to = (backend: { id: string }) => ({ backend: { backend_id: backend.id } })
const newRoute = (match: string, backend: { id: string }) =>
  make(admin, `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match, ...to(backend) })
const pathOf = ({ uri }: { uri: string }) => new URL(uri).pathname
const route = await newRoute('/shop', one)
const other = await newRoute('/other', one)
const tcp = await make(admin, '/edges/tcp', { description: 'Orders', ...to(one) })
const page = await openPage(browser)
await signIn(page, origin, admin.token)
const dialog = page.getByRole('dialog')
const heading = (name: string) => page.getByRole('heading', { name, level: 1 })
const row = (table: string, text: string | RegExp) =>
  page.getByRole('table', { name: table }).getByRole('row').filter({ hasText: text })
const read = async (path: string) => (await admin('GET', path)).body
const backendOf = async (of: { uri: string }) => (await read(pathOf(of))).backend.backend.id

const clicks = () =>
  page.evaluate<number>('window.clicks ??= (addEventListener("click", () => window.clicks++, true), 0)')

test('a second server joins the first, and the first is drained, in six clicks', async () => {
  await clicks()
  await openTab(page, 'Backends')
  await page.getByRole('link', { name: one.address, exact: true }).click()
  await heading('shop').waitFor()
  await row('Used by', 'Storefront').filter({ hasText: '/shop' }).waitFor()
  await row('Used by', 'Orders').waitFor()
  await press(page, 'Add server')
  await dialog.getByLabel('Address').fill('two.internal:80')
  await dialog.getByRole('button', { name: 'Add server', exact: true }).click()
  await heading('shop pool').waitFor()
  await dialog.waitFor({ state: 'detached' })
  await press(page, 'Actions for one.internal:80 > Drain')
  await row('Servers', 'one.internal:80').getByText('Drained').waitFor()
  assert.equal(await clicks(), 6)

  const [group] = (await read('/backends/weighted')).backends
  const [two] = (await read('/backends/static')).backends
  assert.deepEqual(group.backends, { [one.id]: 0, [two.id]: 100 })
  assert.deepEqual([two.address, two.tls.enabled, two.health_check.path], ['two.internal:80', true, '/healthz'])
  for (const each of [route, other, tcp]) assert.equal(await backendOf(each), group.id)
  assert.equal((await read('/change_sets')).change_sets.length, 1, 'it was one change')
})

test('a drained server gets traffic again, and the last one is only drained after a question', async () => {
  await press(page, 'Actions for one.internal:80 > Send traffic again')
  await row('Servers', 'one.internal:80').getByText('50%').waitFor()
  await press(page, 'Actions for one.internal:80 > Drain')
  await row('Servers', 'one.internal:80').getByText('Drained').waitFor()
  await press(page, 'Actions for two.internal:80 > Drain…')
  await dialog.getByText('It is the last server of shop pool').waitFor()
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await press(page, 'Actions for one.internal:80 > Take out of the group…')
  await dialog.getByRole('button', { name: 'Take out', exact: true }).click()
  await row('Servers', 'one.internal:80').waitFor({ state: 'detached' })
})

test('an address that is refused is explained where it was typed, and nothing is left behind', async () => {
  const before = [await read('/change_sets'), await read('/backends/static')]
  await press(page, 'Add server')
  await dialog.getByLabel('Address').fill('three.internal')
  await dialog.getByRole('button', { name: 'Add server', exact: true }).click()
  const error = dialog.locator('.field-error').filter({ hasText: /./ })
  await error.waitFor()
  assert.match(await error.innerText(), /^Address must /)
  assert.doesNotMatch(await dialog.innerText(), /changes\[|static_backends/)
  assert.deepEqual([await read('/change_sets'), await read('/backends/static')], before)
  await page.keyboard.press('Escape')
  await press(page, 'Discard changes')
})

test('a route that was moved elsewhere in the meantime stays there', async () => {
  const [first, elsewhere] = [
    await newBackend(admin, { description: 'stale' }),
    await newBackend(admin, { description: 'elsewhere' }),
  ]
  const [moved, stays] = [await newRoute('/moved', first), await newRoute('/stays', first)]
  await page.goto(`${origin}/dashboard/backends/${first.id}`)
  await press(page, 'Add server')
  await dialog.getByText(moved.match, { exact: true }).waitFor()
  const put = await admin('PUT', `${pathOf(moved)}/backend`, to(elsewhere).backend)
  assert.equal(put.status, 200, put.text)
  await dialog.getByLabel('Address').fill('next.internal:80')
  await dialog.getByRole('button', { name: 'Add server', exact: true }).click()
  await heading('stale pool').waitFor()
  assert.equal(await backendOf(moved), elsewhere.id)
  assert.match(await backendOf(stays), /^bkdwd_/)
})

test('a server of a failover group comes before the response, and says through what it is used', async () => {
  const [main, response] = [
    await newBackend(admin, { address: 'main.internal:80' }),
    await make(admin, '/backends/http_response', { description: 'sorry', status_code: 503 }),
  ]
  const spare = await make(admin, '/backends/failover', { description: 'spare', backends: [main.id, response.id] })
  await newRoute('/spare', spare)
  await page.goto(`${origin}/dashboard/backends/${main.id}`)
  await row('Used by', '/spare').getByRole('link', { name: 'spare' }).waitFor()
  await page.getByText('Traffic through a group is counted for the group: spare').waitFor()
  await press(page, 'Add server')
  await dialog.getByLabel('Address').fill('second.internal:80')
  await dialog.getByRole('button', { name: 'Add server', exact: true }).click()
  await heading('spare').waitFor()
  const [, added, last] = (await read(pathOf(spare))).backends
  assert.equal((await read(`/backends/static/${added}`)).address, 'second.internal:80')
  assert.equal(last, response.id)
  await row('Servers', 'sorry').getByRole('link').click()
  await heading('sorry').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Add server' }).count(), 0)
})

test('a change is taken back from the history of the backend', async () => {
  const changed = await newBackend(admin, { description: 'before' })
  await admin('PATCH', pathOf(changed), { description: 'after' })
  await page.goto(`${origin}/dashboard/backends/${changed.id}?tab=history`)
  await page.getByRole('button', { name: 'Revert…' }).first().click()
  await dialog.getByRole('button', { name: 'Revert change' }).click()
  await heading('before').waitFor()
})

test('a route and an edge lead to the backend; a viewer sees it without what changes it', async () => {
  await goTo(page, `/edges/${tcp.id}`)
  await page.getByRole('link', { name: 'shop pool' }).click()
  await heading('shop pool').waitFor()
  const viewer = await newUser(plane, admin, 'viewer')
  const theirs = await openPage(browser)
  await signIn(theirs, origin, viewer.token, `/backends/${one.id}`)
  await theirs.getByRole('table', { name: 'Servers' }).waitFor()
  for (const name of ['Add server', 'More actions', `Actions for ${one.address}`])
    assert.equal(await theirs.getByRole('button', { name }).count(), 0, name)
  assert.deepEqual([...page.faults, ...theirs.faults], [])
})
