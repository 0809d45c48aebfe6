import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { exampleId, exampleToken } from '../src/http/openapi/examples.ts'
import { openBrowser, openPage, startDashboard } from './dashboard/browser.ts'
import type { Client } from './harness/client.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { newBackend, newPolicy } from './harness/fixtures.ts'
import { behindProxy } from './harness/ip.ts'
import { certificateBody } from './isolation/certificates.ts'
import { expectations, writeTo } from './isolation/expectations.ts'

type Operation = {
  operationId: string
  parameters: { name?: string; in?: string; example?: string }[]
  requestBody?: { content: { 'application/json': { example?: unknown } } }
  responses: Record<string, unknown>
}
const document: { paths: Record<string, Record<string, Operation>> } = JSON.parse(
  readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'),
)
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, ...operation })),
)
const plane = await startControlPlane({ after }, { env: behindProxy })
writeTo(plane.db)

/** The example with the account's own things where it names some: the examples have one id for each kind. */
async function withOwn(admin: Client & { adminId: string }, example: unknown): Promise<unknown> {
  let text = JSON.stringify(example)
  const own: Record<string, () => Promise<string>> = {
    [exampleId('ipp')]: async () => (await newPolicy(admin)).id,
    [exampleId('ipr')]: async () => (await expectations['ip_policy_rules.get']?.path?.(admin))?.id ?? '',
    [exampleId('bkdst')]: async () => (await newBackend(admin)).id,
    [exampleToken]: async () => admin.token,
    [exampleId('usr')]: async () => admin.adminId,
  }
  for (const [theirs, make] of Object.entries(own))
    if (text.includes(theirs)) text = text.replaceAll(theirs, await make())
  assert.doesNotMatch(text, /_01jz3v8q4se5x9y2m7n6k0abcd/, 'an example names something that is not made here')
  return JSON.parse(text)
}

for (const { method, path, operationId, requestBody, parameters, responses } of operations) {
  test(`the example of ${operationId} in openapi.json runs as it is`, async () => {
    const admin = await plane.newAccount()
    const ids = (await expectations[operationId]?.path?.(admin)) ?? {}
    for (const { name = '', example } of parameters.filter((parameter) => parameter.in === 'path'))
      assert.ok(example, `${name} of ${operationId} has no example`)
    const target = path.replaceAll(/\{(\w+)\}/g, (_, name) => ids[name] ?? assert.fail(`${operationId} needs ${name}`))
    const sent = requestBody?.content['application/json']
    if (requestBody) assert.ok(sent?.example !== undefined, `${operationId} has no example`)
    // A document cannot have a certificate that stays valid, nor its private key.
    const example = operationId === 'tls_certificates.create' ? certificateBody : sent?.example
    const body = sent && (await withOwn(admin, example))
    const answer = await admin(method, target, body)
    // A token is not a session: these need the cookie, which an example cannot contain. Others need a second person.
    const needsMore =
      /^(dashboard_session\.(get|sign_out)|command_sign_in\..+|change_sets\.approve|approval_policy\.replace)$/
    const success = needsMore.test(operationId) ? expectations[operationId]?.admin : Object.keys(responses)[0]
    assert.equal(String(answer.status), String(success), answer.text)
    // Hostports belong to one edge in the whole installation, and examples name the same.
    for (const edges of ['tcp', 'https'])
      for (const edge of (await admin('GET', `/edges/${edges}`)).body[`${edges}_edges`]) await admin('DELETE', edge.uri)
  })
}

const get = (path: string, headers = {}) =>
  fetch(`${plane.processes[0]?.origin}${path}`, { headers, redirect: 'manual' })

test('/openapi.json, /llms.txt and /docs/reference/ are public and reveal nothing about accounts', async () => {
  await plane.newAccount()
  const served = await get('/openapi.json')
  assert.equal(served.headers.get('content-type'), 'application/json')
  assert.deepEqual(await served.json(), document)
  const llms = await get('/llms.txt')
  assert.equal(llms.headers.get('content-type'), 'text/plain; charset=utf-8')
  const text = await llms.text()
  for (const { method, path, operationId } of operations)
    assert.ok(text.includes(`- ${method} ${path} (${operationId}): `))
  const docs = await get('/docs/reference/')
  assert.match(
    docs.headers.get('content-security-policy') ?? '',
    /default-src 'none'; script-src 'self'; style-src 'self';/,
  )
  assert.equal((await get('/docs/reference')).status, 308)
  assert.equal((await get('/docs/reference/../../package.json')).status, 404)
})

test('with GATEHOUSE_DOCS=off none of it is served', async () => {
  const { origin } = await plane.startProcess({ GATEHOUSE_DOCS: 'off' })
  for (const path of [
    '/openapi.json',
    '/llms.txt',
    '/docs',
    '/docs/',
    '/docs/reference/',
    '/docs/reference/swagger-ui.css',
  ])
    assert.equal((await fetch(origin + path)).status, 404, path)
})

test('the reference works in a browser that reaches nothing but this server, and can send an example', async (t) => {
  const { origin, newAccount } = await startDashboard(t)
  const { token } = await newAccount()
  const page = await openPage(await openBrowser(t))
  const elsewhere: string[] = []
  page.on('request', (request) => {
    if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(origin)) elsewhere.push(request.url())
  })
  await page.goto(`${origin}/docs/reference/`)
  await page.getByRole('button', { name: 'Authorize' }).first().click()
  const form = page.locator('form', { has: page.locator('#auth-bearer-value') })
  await form.locator('#auth-bearer-value').fill(token)
  await form.getByRole('button', { name: 'Apply credentials' }).click()
  await page.getByRole('button', { name: 'Close' }).first().click()
  await page.locator('#operations-tag-api_keys').click()
  const operation = page.locator('.opblock', { hasText: 'api_keys.create' })
  await operation.click()
  for (const [label, begins] of [
    ['curl', 'curl -X POST "$GATEHOUSE_URL/api_keys"'],
    ['TypeScript', 'const response = await fetch('],
    ['Command line', 'gatehouse api-keys create --description'],
  ] as const) {
    await operation.getByRole('button', { name: label, exact: true }).click()
    assert.ok((await operation.locator('.samples pre').innerText()).startsWith(begins))
  }
  const refusal = operation.locator('tr.response[data-code="403"]')
  assert.equal(await refusal.isVisible(), false, 'errors are folded away')
  await operation.getByText('Errors: 400').click()
  await refusal.waitFor()
  await operation.getByRole('button', { name: 'Try it out' }).click()
  await operation.getByRole('button', { name: 'Execute' }).click()
  await operation.locator('.live-responses-table .response-col_status', { hasText: '201' }).waitFor()
  assert.deepEqual(elsewhere, [])
  assert.deepEqual(page.faults, [])
})
