// In the dashboard, backends of every kind are created, changed and given to a route, and its other modules are set.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, test } from 'node:test'
import { make, newBackend, newHttpsEdge } from '../harness/fixtures.ts'
import { openBrowser, openPage, press, signIn, startDashboard } from './browser.ts'

const { origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })
const admin = await newAccount()
const [one, two] = [
  await newBackend(admin, { address: 'one.internal:80' }),
  await newBackend(admin, { address: 'two.internal:80' }),
]
const edge = await newHttpsEdge(admin)
const routes = `/edges/https/${edge.id}/routes`
const route = await make(admin, routes, { match_type: 'path_prefix', match: '/' })
const page = await openPage(browser)
await signIn(page, origin, admin.token)
const dialog = page.getByRole('dialog')
const axe = await readFile(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

async function open(path: string, button: string): Promise<void> {
  await page.goto(`${origin}/dashboard${path}`)
  await press(page, button)
  await dialog.waitFor()
}
async function save(name: string): Promise<void> {
  await dialog.getByRole('button', { name, exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
}
async function assertAccessible(): Promise<void> {
  const found = await page.evaluate<{ id: string; impact: string }[]>(
    `${axe}; axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations)`,
  )
  assert.deepEqual(
    found.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id }) => id),
    [],
  )
}
const listed = async (kind: string) => (await admin('GET', `/backends/${kind}`)).body.backends

test('a backend gets a health check, and loses it again', async () => {
  await open('/backends', `Actions for ${one.address} > Edit…`)
  await dialog.getByLabel('Health check').selectOption('http')
  await dialog.getByLabel('Path to check').fill('healthz')
  await dialog.getByLabel('Seconds between checks').fill('5')
  await dialog.getByRole('button', { name: 'Save backend', exact: true }).click()
  await dialog.locator('.field-error').filter({ hasText: "must be a path that begins with '/'" }).waitFor()
  await dialog.getByLabel('Path to check').fill('/healthz')
  await assertAccessible()
  await save('Save backend')
  await page.getByText('HTTP check of /healthz, every 5 s').waitFor()
  await press(page, `Actions for ${one.address} > Edit…`)
  await dialog.getByLabel('Health check').selectOption('none')
  await save('Save backend')
  await page.getByText('HTTP check of').waitFor({ state: 'detached' })
  assert.equal((await listed('static')).find(({ id }: { id: string }) => id === one.id).health_check, null)
})

test('a weighted backend is created, and one of its members drained', async () => {
  await open('/backends', 'Create group or response > Weighted backend…')
  await dialog.getByLabel('Description').fill('both')
  for (const [index, { id }] of [one, two].entries()) {
    await dialog.getByRole('button', { name: 'Add backend' }).click()
    await dialog.getByLabel(`Backend ${index + 1}`, { exact: true }).selectOption(id)
    await dialog.getByLabel(`Weight ${index + 1}`).fill('10')
  }
  await assertAccessible()
  await save('Save backend')
  await press(page, 'Actions for both > Edit…')
  await dialog.getByLabel('Weight 2').fill('0')
  await save('Save backend')
  await page.getByText('drained').waitFor()
  assert.deepEqual((await listed('weighted'))[0].backends, { [one.id]: 10, [two.id]: 0 })
})

test('a maintenance page is the last resort of a failover backend that a route uses', async () => {
  await open('/backends', 'Create group or response > HTTP response…')
  await dialog.getByLabel('Description').fill('maintenance')
  await dialog.getByLabel('Headers').fill('Connection: close')
  await dialog.getByLabel('Body').fill('Back at noon')
  await dialog.getByRole('button', { name: 'Save response', exact: true }).click()
  await dialog.getByText('is a header that only the edge itself can set').waitFor()
  await dialog.getByLabel('Headers').fill('Retry-After: 60\nX-Test: a: b')
  await assertAccessible()
  await save('Save response')
  const [response] = await listed('http_response')
  assert.deepEqual([response.status_code, response.headers], [503, { 'Retry-After': '60', 'X-Test': 'a: b' }])

  await open('/backends', 'Create group or response > Failover backend…')
  await dialog.getByLabel('Description').fill('spare')
  for (const [index, id] of [response.id, two.id].entries()) {
    await dialog.getByRole('button', { name: 'Add backend' }).click()
    await dialog.getByLabel(`Backend ${index + 1}`, { exact: true }).selectOption(id)
  }
  await dialog.getByRole('button', { name: 'Save backend', exact: true }).click()
  await dialog.locator('.field-error').filter({ hasText: 'must be last' }).waitFor()
  await dialog.getByRole('button', { name: 'Move backend 2 up' }).click()
  await save('Save backend')
  const [failover] = await listed('failover')
  assert.deepEqual(failover.backends, [two.id, response.id])

  await page.goto(`${origin}/dashboard/edges/${edge.id}`)
  await page.getByRole('button', { name: /^Change the backend of/ }).click()
  await dialog.getByLabel('Backend', { exact: true }).selectOption(failover.id)
  await save('Save')
  await page.getByText('spare').first().waitFor()
  assert.equal((await admin('GET', `${routes}/${route.id}`)).body.backend.backend.id, failover.id)

  await page.goto(`${origin}/dashboard/backends`)
  await press(page, 'Actions for spare > Delete…')
  await dialog.getByRole('button', { name: 'Delete backend', exact: true }).click()
  await dialog.getByText(`still used by ${route.id}`).waitFor()
})

test('the filters, the rate limit, the redirect and the rewrite of a route are set, changed and deleted', async () => {
  const moduleOf = async (name: string) => (await admin('GET', `${routes}/${route.id}`)).body[name]
  await page.goto(`${origin}/dashboard/edges/${edge.id}`)
  await page.getByRole('button', { name: /^Change the methods of/ }).click()
  await dialog.getByLabel('Only these').fill('trace')
  await dialog.getByText('An entry must not be CONNECT or TRACE').waitFor()
  await dialog.getByLabel('Only these').fill('get\nHEAD')
  await assertAccessible()
  await save('Save')
  await page.getByText('Only GET, HEAD').waitFor()
  assert.deepEqual(await moduleOf('methods'), { enabled: true, allow: ['GET', 'HEAD'], deny: [], mode: 'enforce' })
  await page.getByRole('button', { name: /^Change the user agent filter of/ }).click()
  await dialog.getByLabel('Not if it contains').fill('curl/\nBad Bot')
  await dialog.getByLabel('Other requests').selectOption('warn')
  await save('Save')
  await page.getByText('Not curl/, Bad Bot: warns only').waitFor()
  const filter = { enabled: true, allow: [], deny: ['curl/', 'Bad Bot'], mode: 'warn' }
  assert.deepEqual(await moduleOf('user_agent_filter'), filter)

  await page.reload()
  await page.getByRole('button', { name: /^Change the rate limit of/ }).click()
  await dialog.getByLabel('Requests', { exact: true }).fill('0')
  await dialog.getByText('It must be a number from 1 to 1,000,000.').waitFor()
  await dialog.getByLabel('Requests', { exact: true }).fill('100')
  await dialog.getByLabel('Every … seconds').fill('1')
  await dialog.getByLabel('Requests beyond it').selectOption('warn')
  await assertAccessible()
  await save('Save')
  await page.getByText('100 requests every second from one address, on each node: warns only').waitFor()
  const limit = { enabled: true, requests: 100, per_seconds: 1, key: 'source', mode: 'warn', scope: 'node' }
  assert.deepEqual(await moduleOf('rate_limit'), limit)
  await page.reload()
  await page.getByRole('button', { name: /^Change the rate limit of/ }).click()
  await dialog.getByLabel('Counted for').selectOption('Each value of a header')
  await dialog.getByLabel('Header', { exact: true }).fill('X_Api_Key')
  await dialog.getByText('It must be a header that clients may send').waitFor()
  await dialog.getByLabel('Header', { exact: true }).fill('X-Api-Key')
  await assertAccessible()
  await save('Save')
  await page.getByText('100 requests every second with one X-Api-Key, on each node: warns only').waitFor()
  assert.deepEqual(await moduleOf('rate_limit'), { ...limit, key: 'header:X-Api-Key' })

  await page.reload()
  await page.getByRole('button', { name: /^Change the redirect of/ }).click()
  await dialog.getByLabel('To', { exact: true }).fill('new.example')
  await dialog.locator('.field-error').waitFor()
  await dialog.getByLabel('To', { exact: true }).fill('https://new.example')
  await assertAccessible()
  await save('Save')
  await page.getByText('308 https://new.example/…').waitFor()
  assert.equal((await moduleOf('redirect')).to, 'https://new.example')

  await page.reload()
  await page.getByRole('button', { name: /^Change the rewrite of/ }).click()
  await dialog.getByLabel('Strip prefix').fill('/api/')
  await dialog.locator('.field-error').waitFor()
  await dialog.getByLabel('Strip prefix').fill('/api')
  await dialog.getByLabel('Host').fill('app.internal')
  await assertAccessible()
  await save('Save')
  await page.getByText('/api/… → app.internal/…').waitFor()
  assert.deepEqual(await moduleOf('rewrite'), {
    ...{ enabled: true, strip_prefix: '/api', add_prefix: null, host: 'app.internal' },
  })

  await page.reload()
  await page.getByRole('button', { name: /^Change the CORS settings of/ }).click()
  await dialog.getByLabel('Origins', { exact: true }).fill('https://app.example.com/')
  await dialog.locator('.field-error').first().waitFor()
  await dialog.getByLabel('Origins', { exact: true }).fill('https://app.example.com\nhttps://*.example.net')
  await dialog.getByText('Let pages send cookies').click()
  await assertAccessible()
  await save('Save')
  await page.getByText('https://app.example.com, https://*.example.net, with cookies').waitFor()
  const { allowed_origins, allow_credentials } = await moduleOf('cors')
  assert.deepEqual([allowed_origins, allow_credentials], [['https://app.example.com', 'https://*.example.net'], true])

  await page.getByRole('button', { name: /^Change the rate limit of/ }).click()
  await dialog.getByRole('button', { name: 'Remove rate limit', exact: true }).click()
  await dialog.getByText('Requests are then not limited.').waitFor()
  await dialog.getByRole('button', { name: 'Remove rate limit', exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
  assert.equal(await moduleOf('rate_limit'), null)
})

test('the rate limit of a TCP edge is set, shown and removed', async () => {
  const { id } = await make(admin, '/edges/tcp', {})
  await page.goto(`${origin}/dashboard/edges/${id}`)
  await page.getByRole('button', { name: /^Change the rate limit of/ }).click()
  await dialog.getByLabel('Connections', { exact: true }).fill('20')
  await dialog.getByLabel('Counted for').selectOption('edge')
  await assertAccessible()
  await save('Save')
  await page.getByText('20 connections every 60 seconds in all, on each node').waitFor()
  const { rate_limit } = (await admin('GET', `/edges/tcp/${id}`)).body
  const limit = { enabled: true, connections: 20, per_seconds: 60, key: 'edge', mode: 'enforce', scope: 'node' }
  assert.deepEqual(rate_limit, limit)
  await page.getByRole('button', { name: /^Change the rate limit of/ }).click()
  await dialog.getByRole('button', { name: 'Remove rate limit', exact: true }).click()
  await dialog.getByText('Connections are then not limited.').waitFor()
  await dialog.getByRole('button', { name: 'Remove rate limit', exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
  assert.equal((await admin('GET', `/edges/tcp/${id}`)).body.rate_limit, null)
})

test('nothing went wrong on the page', () => assert.deepEqual(page.faults, []))
