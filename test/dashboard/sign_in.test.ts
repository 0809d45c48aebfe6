// Signing in with a provider as a person does, in a real browser. test/sign_in has what an attacker would try.
import assert from 'node:assert/strict'
import { hash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { startSignIn } from '../sign_in/set_up.ts'
import { openBrowser, openPage, openTab, signInByForm, signOut } from './browser.ts'

const plane = await startSignIn({ after })
const { origin, acme } = plane
const { token } = await plane.named('acme')
await plane.named('other')
const browser = await openBrowser({ after })
const axe = await readFile(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8')
acme.person = { sub: 'ada', name: 'Ada', email: 'ada@acme.example', email_verified: true, groups: ['ops'] }

const signInHeading = (page: Page) => page.getByRole('heading', { name: 'Sign in to Gatehouse', level: 1 })

/** What axe finds serious, in both themes. `SCREENSHOTS` names a folder for pictures of them. */
async function inspect(page: Page, name: string): Promise<void> {
  for (const theme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: theme })
    const found = await page.evaluate<{ id: string; impact: string }[]>(
      `${axe}; axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations)`,
    )
    const serious = found.filter(({ impact }) => impact === 'serious' || impact === 'critical')
    assert.deepEqual(serious, [], `${name}, ${theme}`)
    const folder = process.env.SCREENSHOTS
    if (folder) await page.screenshot({ path: `${folder}/${name}-${theme}.png` })
  }
}

test('a person signs in with the provider, comes back to the page they wanted, and signs out of both', async () => {
  const page = await openPage(browser)
  await page.goto(`${origin}/dashboard/people?show=all`)
  await page.getByRole('link', { name: 'Continue with Acme' }).waitFor()
  await page.getByLabel('API key').waitFor()
  await inspect(page, 'sign-in')
  await page.getByRole('link', { name: 'Continue with Acme' }).click()
  await page.getByRole('heading', { name: 'People and bots', level: 1 }).waitFor()
  assert.equal(page.url(), `${origin}/dashboard/people?show=all`)
  await page.getByRole('row', { name: /Ada/ }).getByText('acme', { exact: true }).waitFor()
  await page.getByRole('row', { name: /Root/ }).getByText('API key', { exact: true }).waitFor()
  const [cookie] = (await page.context().cookies(origin)).filter(({ name }) => name === 'gatehouse_session')
  assert.equal(cookie?.httpOnly, true)
  assert.equal(cookie?.sameSite, 'Strict')
  await page.reload()
  await openTab(page, 'API keys')
  await page.getByText('Sign-in with acme').waitFor()
  await signOut(page)
  // The provider asks, and sends the browser back.
  await page.getByRole('button', { name: 'Leave' }).click()
  await signInHeading(page).waitFor()
  assert.ok(page.url().startsWith(`${origin}/dashboard/`))
  assert.deepEqual(page.faults, [])
})

test('a provider that is down, and a refused person, get a page that says what to do', async () => {
  const page = await openPage(browser)
  await page.goto(`${origin}/dashboard/`)
  await page.getByRole('link', { name: 'Continue with Down' }).click()
  await page.getByRole('alert').getByText('Down is not available').waitFor()
  await inspect(page, 'provider-down')
  acme.person = { ...acme.person, sub: 'eve', email: 'eve@elsewhere.example', groups: [] }
  await page.getByRole('link', { name: 'Continue with Acme' }).click()
  await page.getByRole('alert').getByText('You are not allowed to sign in').waitFor()
  // A link can choose among the texts, and nothing else.
  await page.goto(`${origin}/dashboard/?sign_in_error=<b>call+0800</b>&provider=evil&operation=call+0800`)
  await signInHeading(page).waitFor()
  assert.equal(await page.getByText('0800').count(), 0)
  await page.goto(`${origin}/dashboard/?sign_in_error=not_allowed&provider=evil&operation=call+0800`)
  await page.getByRole('alert').waitFor()
  assert.equal(await page.getByText(/0800|evil/).count(), 0)
  assert.deepEqual(page.faults, [])
})

test('a person approves a command line on a page that says who asks', async () => {
  const verifier = randomBytes(32).toString('base64url')
  const post = async (path: string, body: object) => {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(origin + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return (await response.json()) as Record<string, string>
  }
  const challenge = hash('sha256', verifier, 'base64url')
  const start = () => post('/sign_in/command', { challenge, client: 'gatehouse 1.2.3', host: 'laptop' })
  const { id, code = '', url = '' } = await start()
  const page = await openPage(browser)
  acme.person = { sub: 'ben', name: 'Ben', email: 'ben@acme.example', email_verified: true, groups: ['guests'] }
  await page.goto(url)
  await page.getByRole('link', { name: 'Continue with Acme' }).click()
  await page.getByRole('heading', { name: 'Sign in the command line', level: 1 }).waitFor()
  await page.getByText(code, { exact: true }).waitFor()
  for (const shown of ['gatehouse 1.2.3', 'laptop', '127.0.0.1'])
    await page.getByRole('region', { name: 'Request' }).getByText(shown, { exact: true }).waitFor()
  assert.equal(await page.getByRole('note').count(), 0, 'it asked from the same address')
  await inspect(page, 'cli-login')
  await page.getByRole('button', { name: 'Approve' }).click()
  await page.getByRole('status').getByText('Approved.').waitFor()
  const collected = await post('/sign_in/command/token', { id, verifier })
  const { body: caller } = await plane.clientFor(collected.token ?? '')('GET', '/caller')
  assert.equal(caller.role, 'viewer')
  const second = await start()
  await page.goto(second.url ?? '')
  await page.getByRole('button', { name: 'Deny' }).click()
  await page.getByRole('status').getByText('Denied.').waitFor()
  assert.equal((await post('/sign_in/command/token', { id: second.id, verifier })).status, 'denied')
  assert.deepEqual(page.faults, [])
})

test('a token still signs in beside the providers', async () => {
  const page = await openPage(browser)
  await signInByForm(page, origin, token)
  await signOut(page)
  await signInHeading(page).waitFor()
  assert.deepEqual(page.faults, [])
})
