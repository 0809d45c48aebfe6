// `npm run drill:screenshots -- <folder>`: every page of the dashboard at two widths in both themes, to be looked at.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openBrowser, openPage, signIn, startDashboard } from '../dashboard/browser.ts'
import { furnish } from '../dashboard/furnish.ts'
import { drill } from '../harness/drill.ts'

const folder = process.argv[2] ?? 'screenshots'

await drill(async (scope) => {
  const { origin, newAccount } = await startDashboard(scope)
  const admin = await newAccount()
  const { pages } = await furnish(admin)
  const browser = await openBrowser(scope)
  await mkdir(folder, { recursive: true })
  for (const colorScheme of ['light', 'dark'] as const)
    for (const width of [390, 1440]) {
      const page = await openPage(browser, { colorScheme, viewport: { width, height: 900 } })
      const shoot = async (path: string) => {
        const name = path.split('?')[0]?.replaceAll('/', '-').replace(/_.*/, '').slice(1) || 'overview'
        await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`), fullPage: true })
      }
      await page.goto(`${origin}/dashboard/`)
      await page.getByRole('heading', { name: 'Sign in' }).waitFor()
      await shoot('/sign-in')
      await signIn(page, origin, admin.token)
      for (const path of pages) {
        await page.goto(`${origin}/dashboard${path}`)
        await page.getByRole('heading', { level: 1 }).waitFor()
        await page.locator('.skeleton').first().waitFor({ state: 'detached' })
        await shoot(path)
      }
    }
  console.log(`${(pages.length + 1) * 4} pictures in ${folder}`)
  return true
})
