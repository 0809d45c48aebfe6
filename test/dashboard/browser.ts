import { existsSync } from 'node:fs'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { freePort } from '../../dev/ports.ts'
import { type ControlPlane, type Scope, startControlPlane } from '../harness/control_plane.ts'
import { type Installation, startInstallation } from '../harness/edge.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'

const executablePath = '/usr/bin/chromium'

export async function openBrowser(
  scope: Scope,
  more: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<Browser> {
  if (!existsSync(executablePath)) throw new Error(`${executablePath} is not there: install Debian's chromium`)
  // Chromium's own sandbox does not work for root, and in most containers; the pages that it opens here are ours.
  const browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox', ...more],
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

export type Watched = Page & { faults: string[] }

/** A page that remembers everything that should not happen on it. */
export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<Watched> {
  // Without motion: what is still fading in has another contrast than it will have.
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: 'reduce',
    ...options,
  })
  context.setDefaultTimeout(Math.min(30_000, loadScaledTimeout(10_000)))
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
  return Object.assign(page, { faults })
}

export async function signIn(page: Page, origin: string, token: string): Promise<void> {
  await page.goto(`${origin}/dashboard/`)
  await page.getByLabel('API key').fill(token)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
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
