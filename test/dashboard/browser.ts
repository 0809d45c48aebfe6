import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { afterEach, beforeEach } from 'node:test'
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
  type Request,
} from 'playwright-core'
import { freePort } from '../../dev/ports.ts'
import { noteToken } from '../harness/client.ts'
import { type ControlPlane, type Scope, startControlPlane } from '../harness/control_plane.ts'
import { type Installation, startInstallation } from '../harness/edge.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { poll } from '../harness/poll.ts'

/**
 * The same engine without the rest of a browser opens a page with 40 % less processor time. Only the whole one has the
 * certificates of a person's profile.
 */
const executables = { engine: '/usr/bin/chromium-headless-shell', whole: '/usr/bin/chromium' }

export async function openBrowser(
  scope: Scope,
  more: readonly string[] = [],
  env: Record<string, string> = {},
  kind: keyof typeof executables = 'engine',
): Promise<Browser> {
  const executablePath = executables[kind]
  if (!existsSync(executablePath))
    throw new Error(`${executablePath} is not there: install Debian's package ${basename(executablePath)}`)
  // Chromium's own sandbox does not work for root, and in most containers; the pages that it opens here are ours.
  const browser = await chromium.launch({
    executablePath,
    // Without a graphics card, pretending to have one costs a tenth more.
    args: ['--no-sandbox', '--disable-gpu', ...more],
    env: { ...process.env, ...env } as Record<string, string>,
  })
  scope.after(() => browser.close())
  return browser
}

/** Under the address that its links and cookies are made for: a browser goes by that, as no test client does. */
async function ownAddress() {
  const origin = `http://127.0.0.1:${await freePort()}`
  return { origin, env: { GATEHOUSE_LISTEN: origin.slice('http://'.length), GATEHOUSE_PUBLIC_URL: origin } }
}

export async function startDashboard(
  scope: Scope,
  settings: (origin: string) => Promise<Record<string, string>> = async () => ({}),
): Promise<ControlPlane & { origin: string }> {
  const { origin, env } = await ownAddress()
  return { ...(await startControlPlane(scope, { env: { ...env, ...(await settings(origin)) } })), origin }
}

export async function startDashboardWithEdges(scope: Scope): Promise<Installation & { origin: string }> {
  const { origin, env } = await ownAddress()
  return { ...(await startInstallation(scope, env)), origin }
}

/** Another process on the database of the first; resolves to its origin. */
export async function startAnotherDashboard(plane: ControlPlane, more: Record<string, string>): Promise<string> {
  const { origin, env } = await ownAddress()
  await plane.startProcess({ ...env, ...more })
  return origin
}

/** Opened by the test that runs now. Left open, a page would go on asking for news until the end of its file. */
const ofThisTest = { isRunning: false, contexts: [] as BrowserContext[] }
// Drills have no tests.
if (process.env.NODE_TEST_CONTEXT) {
  beforeEach(() => {
    ofThisTest.isRunning = true
  })
  afterEach(async () => {
    ofThisTest.isRunning = false
    await Promise.all(ofThisTest.contexts.splice(0).map((context) => context.close()))
  })
}

export const usualSize = { width: 1280, height: 900 }

export type Watched = Page & {
  faults: string[]
  /** For how many milliseconds it has waited for no answer. */
  quietFor: () => number
}

/** Longer on a busy machine, but a test that fails must end. */
export const pageTimeout = (milliseconds: number): number => Math.min(120_000, loadScaledTimeout(milliseconds))

/** A page that remembers everything that should not happen on it. */
export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<Watched> {
  // Without motion: what is still fading in has another contrast than it will have.
  const context = await browser.newContext({
    viewport: usualSize,
    reducedMotion: 'reduce',
    ...options,
  })
  if (ofThisTest.isRunning) ofThisTest.contexts.push(context)
  context.setDefaultTimeout(pageTimeout(10_000))
  const page = await context.newPage()
  const faults: string[] = []
  page.on('pageerror', ({ message }) => faults.push(message))
  page.on('dialog', async (dialog) => {
    // The browser asks whether to lose a draft; most tests go on to another page without saving.
    if (dialog.type() === 'beforeunload') return dialog.accept()
    faults.push(`a script ran: ${dialog.message()}`)
    await dialog.dismiss()
  })
  // A refused answer is reported too, and is often what a test is about; a violated policy never is.
  page.on('console', (message) => {
    if (message.type() === 'error' && !/^Failed to load resource/.test(message.text())) faults.push(message.text())
  })
  const waitingFor = new Set<Request>()
  let quietSince = Date.now()
  const answered = (request: Request) => {
    waitingFor.delete(request)
    quietSince = Date.now()
  }
  page.on('request', (request) => waitingFor.add(request))
  page.on('requestfinished', answered)
  page.on('requestfailed', answered)
  return Object.assign(page, { faults, quietFor: () => (waitingFor.size > 0 ? 0 : Date.now() - quietSince) })
}

/**
 * With the cookie that the form would get, and on the page that is wanted: half of the work of a person who signs in.
 * `signInByForm` is for tests of signing in.
 */
export async function signIn(page: Page, origin: string, token: string, path = '/'): Promise<void> {
  const headers = { 'service-version': '2', origin }
  const signedIn = await page.request.post(`${origin}/dashboard_session`, { headers, data: { token } })
  assert.equal(signedIn.status(), 201, await signedIn.text())
  for (const { value } of await page.context().cookies(origin)) noteToken(value)
  await page.goto(`${origin}/dashboard${path}`)
  await page.getByRole('heading', { level: 1 }).filter({ hasNotText: 'Sign in to Gatehouse' }).waitFor()
}

export async function signInByForm(page: Page, origin: string, token: string): Promise<void> {
  await page.goto(`${origin}/dashboard/`)
  await page.getByLabel('API key').fill(token)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
}

/**
 * Goes to another page as a link of the dashboard does: a fifth of what it costs to load it. navigation.test.ts loads every
 * page by its address.
 */
export async function goTo(page: Page, path: string): Promise<void> {
  const url = new URL(`/dashboard${path}`, page.url())
  // The same page with other parameters keeps its heading, and another heading is what tells that a page is there.
  if (url.pathname === new URL(page.url()).pathname) return void (await page.goto(url.href))
  const left = await page.evaluate<string | undefined>(`(() => {
    const left = document.querySelector('h1')?.textContent
    history.pushState({ idx: (history.state?.idx ?? 0) + 1 }, '', ${JSON.stringify(url.href)})
    dispatchEvent(new PopStateEvent('popstate', { state: history.state }))
    return left
  })()`)
  await page
    .getByRole('heading', { level: 1 })
    .filter({ hasNotText: new RegExp(`^${RegExp.escape(left ?? '')}$`) })
    .waitFor()
}

/** As `goTo`, until everything is there that the page asks for. Playwright's `networkidle` is about loading a page only. */
export async function goToAll(page: Watched, path: string): Promise<void> {
  await goTo(page, path)
  // The page may have been quiet before it asked for what is on this one.
  const there = Date.now()
  await poll(
    () => Math.min(page.quietFor(), Date.now() - there),
    (milliseconds) => milliseconds >= 500,
  )
}

export async function openTab(page: Page, name: string): Promise<void> {
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }).click()
  await page.getByRole('heading', { name, level: 1 }).waitFor()
}

/** Presses a button by its name, or an entry of a menu: 'More actions > Rename'. */
export async function press(page: Page, name: string | RegExp): Promise<void> {
  const [button, entry] = typeof name === 'string' ? name.split(' > ') : [name]
  if (button === undefined) return
  await page.getByRole('button', { name: button, exact: true }).click()
  if (entry) await page.getByRole('menuitem', { name: entry, exact: true }).click()
}

export async function signOut(page: Page): Promise<void> {
  await page.getByRole('button', { name: /^Your menu/ }).click()
  await page.getByRole('menuitem', { name: 'Sign out' }).click()
}
