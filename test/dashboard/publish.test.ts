// Publishing an application is one form, one change, and then a list of what is there and what is missing.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { make } from '../harness/fixtures.ts'
import { putRules } from '../harness/ip.ts'
import { openBrowser, openPage, openTab, press, signIn, startDashboard } from './browser.ts'

const { origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })
const admin = await newAccount()
const page = await openPage(browser)
await signIn(page, origin, admin.token)
const dialog = page.getByRole('dialog')
const step = (name: string) => page.getByRole('listitem', { name, exact: true })
const listed = async (path: string) => Object.values((await admin('GET', path)).body as object)[0] as { id: string }[]

test('an application is published in three clicks, and the list says what is still missing', async () => {
  await page.evaluate('(window.clicks = 0, addEventListener("click", () => window.clicks++, true))')
  await openTab(page, 'Edges')
  await press(page, 'Publish an application')
  await dialog.getByLabel('Host name').fill('wiki.pub-1.example')
  await dialog.getByLabel('Server').fill('wiki.internal:80')
  await dialog.getByRole('button', { name: 'Publish', exact: true }).click()
  await step('Host name').getByText('Saved').waitFor()
  assert.equal(await page.evaluate('window.clicks'), 3)
  for (const [name, word] of [
    ['Domain', 'Not reserved'],
    ['Route', 'Saved'],
    ['Server answers', 'Down'],
    ['Certificate', 'None of this account'],
    ['First request', 'None yet'],
  ] as const)
    await step(name).getByText(word).waitFor()
  await page.getByText('2 of 6 done').waitFor()
  const [edge] = await listed('/edges/https')
  const [route] = await listed(`/edges/https/${edge?.id}/routes`)
  const [backend] = await listed('/backends/static')
  assert.equal((route as unknown as { backend: { backend: { id: string } } }).backend.backend.id, backend?.id)
})

test('the domain is named when the account has reserved it, and a check that is missing is no tick', async () => {
  await make(admin, '/reserved_domains', { domain: 'pub-1.example' })
  await page.reload()
  await step('Domain').getByText('Not verified').waitFor()
  await step('Domain').getByRole('link', { name: 'pub-1.example' }).waitFor()
})

test('what cannot be read is unknown', async () => {
  await page.route('**/traffic_statistics**', (route) => route.abort())
  await page.route('**/reserved_domains**', (route) => route.abort())
  await page.reload()
  await step('Route').getByText('Saved').waitFor()
  for (const name of ['Domain', 'Certificate', 'First request']) await step(name).getByText('Unknown').waitFor()
  await page.unrouteAll()
})

test('what is refused is explained at its input, and nothing is left of it', async () => {
  const before = [await listed('/backends/static'), await listed('/edges/https'), await listed('/change_sets')]
  const policy = await make(admin, '/ip_policies', { description: 'offices' })
  await putRules(admin, policy.id, ['allow 192.0.2.0/24'])
  await page.goto(`${origin}/dashboard/edges`)
  await press(page, 'Publish an application')
  await dialog.getByLabel('Host name').fill('not a name')
  await dialog.getByLabel('Server').fill('wiki.internal:80')
  await dialog.getByLabel('Who may reach it').selectOption('warn')
  await dialog.getByText('offices').click()
  await dialog.getByRole('button', { name: 'Publish', exact: true }).click()
  await dialog.locator('.field-error').filter({ hasText: /./ }).waitFor()
  assert.doesNotMatch(await dialog.innerText(), /changes\[|https_edges/)
  assert.deepEqual(
    [await listed('/backends/static'), await listed('/edges/https'), await listed('/change_sets')],
    before,
  )
  await dialog.getByLabel('Host name').fill('wiki.pub-2.example')
  await dialog.getByRole('button', { name: 'Publish', exact: true }).click()
  await step('Host name').getByText('Saved').waitFor()
  const [edge] = await listed('/edges/https')
  const [route] = await listed(`/edges/https/${edge?.id}/routes`)
  assert.equal((route as unknown as { ip_restriction: { mode: string } }).ip_restriction.mode, 'warn')
  assert.deepEqual(page.faults, [])
})
