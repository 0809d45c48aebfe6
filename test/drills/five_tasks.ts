// `npm run drill -- five-tasks`: what a new user does first in the dashboard, and how many clicks and keys each task takes.
import assert from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { ensureDashboard } from '../../dev/dashboard.ts'
import { openBrowser, openPage, signIn, startDashboard } from '../dashboard/browser.ts'
import { furnish } from '../dashboard/furnish.ts'
import { noteToken } from '../harness/client.ts'
import { drill } from '../harness/drill.ts'

/** A page, every touch of which is counted. A choice in a list is a click to open it and one to choose. */
function counting(page: Page) {
  const spent = { clicks: 0, keys: 0 }
  const button = (name: string) => page.getByRole('button', { name, exact: true })
  return {
    spent,
    go: (name: string) => {
      spent.clicks++
      return page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }).click()
    },
    follow: (name: string) => {
      spent.clicks++
      return page.getByRole('main').getByRole('link', { name, exact: true }).click()
    },
    press: (name: string) => {
      spent.clicks++
      return button(name).click()
    },
    check: (label: string) => {
      spent.clicks++
      return page.getByLabel(label, { exact: true }).check()
    },
    choose: (label: string, option: string) => {
      spent.clicks += 2
      return page.getByLabel(label, { exact: true }).selectOption(option)
    },
    /** Into the input that has the focus, or one that is clicked. */
    type: async (label: string, text: string) => {
      const field = page.getByLabel(label, { exact: true })
      const hasFocus = await field.evaluate((element) => element.matches(':focus'))
      if (!hasFocus) spent.clicks++
      spent.keys += text.length
      await field.fill(text)
    },
    keys: async (...names: string[]) => {
      spent.keys += names.length
      for (const name of names) await page.keyboard.press(name)
    },
  }
}
type Hand = ReturnType<typeof counting>

const tasks: [name: string, run: (hand: Hand, page: Page) => Promise<void>][] = [
  [
    'create a read-only key',
    async ({ go, press, type }, page) => {
      await go('API keys')
      await press('Create key')
      await type('Description', 'reports')
      assert.ok(await page.getByLabel('Read only').isChecked())
      await press('Create API key')
      noteToken((await page.getByLabel('Token', { exact: true }).textContent()) ?? '')
      await press('I have saved it')
    },
  ],
  [
    'allow an office',
    async ({ go, follow, press, type }, page) => {
      await go('IP policies')
      await follow('offices')
      await press('Add rule')
      await type('Address or range', '203.0.113.0/24')
      await type('Description', 'Bonn')
      await press('Add rule')
      await press('Review and save')
      await press('Save rules')
      await page.getByRole('dialog').waitFor({ state: 'detached' })
    },
  ],
  [
    'try a stricter policy',
    async ({ go, press, type, check }, page) => {
      await go('IP restrictions')
      await press('Create restriction')
      await type('Description', 'strict')
      await check('offices')
      await press('Create with warnings only')
      await page.getByRole('region', { name: 'Evidence' }).waitFor()
    },
  ],
  [
    'add a route with a header',
    async ({ go, follow, press, type, choose }, page) => {
      await go('Edges')
      await follow('app.example:443')
      await press('Add route')
      await type('Path', '/api/')
      await choose('Backend', 'app.internal:8080')
      await type('Headers to add to requests', 'X-Team: storage')
      await press('Save route')
      await page.getByRole('article', { name: 'Route /api/' }).getByText('+1').waitFor()
    },
  ],
  [
    'find why an address is refused',
    async ({ keys }, page) => {
      await keys('Control+k')
      await page.getByRole('menuitem', { name: 'Overview' }).waitFor()
      await keys(...'127.0.0.9')
      await page
        .getByRole('menuitem', { name: /^Check 127\.0\.0\.9/ })
        .first()
        .waitFor()
      await keys('ArrowDown', 'Enter')
      await page.getByRole('region', { name: 'Evaluation' }).waitFor()
    },
  ],
]

await ensureDashboard()
await drill(async (scope) => {
  const { origin, newAccount } = await startDashboard(scope)
  const admin = await newAccount()
  await furnish(admin)
  const page = await openPage(await openBrowser(scope))
  await signIn(page, origin, admin.token)
  for (const [name, run] of tasks) {
    await page.goto(`${origin}/dashboard/`)
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
    const hand = counting(page)
    await run(hand, page)
    console.log(`${name}: ${hand.spent.clicks} clicks, ${hand.spent.keys} keys`)
  }
  return page.faults.length === 0
})
