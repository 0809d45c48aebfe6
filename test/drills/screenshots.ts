// `npm run drill:screenshots -- <folder> [<folder with mock-ups> [<names>]]`: every page of the dashboard, or those named
// (`traffic,overview`), at two widths in both themes, and beside it the mock-up of the same name if there is one, to be
// looked at.
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser } from 'playwright-core'
import { ensureDashboard } from '../../dev/dashboard.ts'
import { openBrowser, openPage, press, signIn, startDashboard, type Watched } from '../dashboard/browser.ts'
import { furnishShop } from '../dashboard/showcase.ts'
import { drill } from '../harness/drill.ts'

const [folder = 'screenshots', mockups, only] = process.argv.slice(2)

type Shot = { name: string; path: string; prepare?: (page: Watched) => Promise<unknown> }

const addRule = async (page: Watched) => {
  await press(page, 'Add rule')
  await page.getByLabel('Address or range').fill('192.0.2.128/27')
  await press(page, 'Add to draft')
}

const shotsOf = ({
  policy,
  edge,
  tcp,
  request,
  domain,
  certificate,
  webhook,
}: Awaited<ReturnType<typeof furnishShop>>): Shot[] => [
  { name: 'overview', path: '/' },
  { name: 'traffic', path: `/traffic/${request}` },
  { name: 'traffic-list', path: '/traffic' },
  { name: 'keys-list', path: '/keys' },
  { name: 'keys', path: '/keys', prepare: (page) => press(page, 'Create key') },
  { name: 'policies', path: '/policies' },
  { name: 'policy', path: `/policies/${policy.id}`, prepare: addRule },
  { name: 'restrictions', path: '/restrictions' },
  { name: 'edges', path: '/edges' },
  { name: 'edge', path: `/edges/${edge.id}` },
  { name: 'edge-tcp', path: `/edges/${tcp.id}` },
  { name: 'check', path: '/check?ip=203.0.113.201&target=api' },
  { name: 'newly-refused', path: '/newly-refused' },
  { name: 'audit', path: '/audit' },
  { name: 'backends', path: '/backends' },
  { name: 'domains', path: '/domains' },
  { name: 'domain', path: `/domains/${domain.id}` },
  { name: 'certificates', path: '/certificates' },
  { name: 'certificate', path: `/certificates/${certificate.id}` },
  { name: 'certificate-upload', path: '/certificates', prepare: (page) => press(page, 'Upload certificate') },
  { name: 'nodes', path: '/nodes' },
  { name: 'people', path: '/people' },
  { name: 'webhooks', path: '/webhooks' },
  { name: 'webhook-create', path: '/webhooks', prepare: (page) => press(page, 'Create webhook') },
  { name: 'webhook', path: `/webhooks/${webhook.id}` },
]

/** The mock-up and what there is, in one picture. */
async function placeBeside(browser: Browser, name: string, width: number, colorScheme: 'light' | 'dark') {
  const drawn = join(mockups ?? '', `${name}.html`)
  if (!mockups || !existsSync(drawn)) return
  const mockup = await openPage(browser, { colorScheme, viewport: { width, height: 900 } })
  await mockup.goto(pathToFileURL(resolve(drawn)).href)
  const [a, b] = [`${name}-${width}-${colorScheme}-mockup.png`, `${name}-${width}-${colorScheme}.png`]
  await mockup.screenshot({ path: join(folder, a), fullPage: true })
  const page = await openPage(browser, { viewport: { width: width * 2 + 24, height: 900 } })
  const sheet = join(folder, 'beside.html')
  await writeFile(
    sheet,
    `<body style="margin:0;display:flex;gap:24px;align-items:start;background:#888"><img src="${a}"><img src="${b}">`,
  )
  await page.goto(pathToFileURL(resolve(sheet)).href)
  await page.screenshot({ path: join(folder, `beside-${b}`), fullPage: true })
  await Promise.all([mockup.context().close(), page.context().close()])
}

await ensureDashboard()
await drill(async (scope) => {
  const { origin, newAccount, db } = await startDashboard(scope)
  const admin = await newAccount()
  const shots = shotsOf(await furnishShop(db, admin)).filter(({ name }) => !only || only.split(',').includes(name))
  const browser = await openBrowser(scope)
  await mkdir(folder, { recursive: true })
  const faults: string[] = []
  for (const colorScheme of ['light', 'dark'] as const)
    for (const width of [390, 1440]) {
      const page = await openPage(browser, { colorScheme, viewport: { width, height: 900 } })
      const shoot = (name: string) =>
        page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`), fullPage: true })
      await page.goto(`${origin}/dashboard/`)
      await page.getByRole('heading', { name: 'Sign in' }).waitFor()
      await shoot('sign-in')
      await signIn(page, origin, admin.token)
      for (const { name, path, prepare } of shots) {
        await page.goto(`${origin}/dashboard${path}`)
        await page.getByRole('heading', { level: 1 }).waitFor()
        await page.locator('.skeleton').first().waitFor({ state: 'detached' })
        // A page that watches is never idle.
        if (path.startsWith('/traffic')) await page.getByRole('table', { name: 'Requests' }).waitFor()
        else await page.waitForLoadState('networkidle')
        await prepare?.(page)
        await shoot(name)
        await placeBeside(browser, name, width, colorScheme)
      }
      faults.push(...page.faults)
    }
  console.log(`${(shots.length + 1) * 4} pictures in ${folder}`)
  for (const fault of faults) console.error(fault)
  return faults.length === 0
})
