// `npm run drill -- screenshots <folder> [<folder with mock-ups> [<names>]]`: every page of the dashboard, or those named
// (`traffic,overview`), at two widths in both themes, and beside it the mock-up of the same name if there is one, to be
// looked at. The page of components comes from a development build, since no other serves it. With `docs` as the folder, it
// makes the pictures in docs/images.
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser } from 'playwright-core'
import { ensureDashboard } from '../../dev/dashboard.ts'
import { startNats } from '../../dev/nats.ts'
import { addSigningKey } from '../../src/publisher/signing_keys.ts'
import {
  openBrowser,
  openPage,
  press,
  signIn,
  startAnotherDashboard,
  startDashboard,
  type Watched,
} from '../dashboard/browser.ts'
import { startDevelopmentBuild } from '../dashboard/development_build.ts'
import { furnishRefusal } from '../dashboard/furnish.ts'
import { furnishShop } from '../dashboard/showcase.ts'
import { type Scope, secretsBox } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { poll } from '../harness/poll.ts'

const [to = 'screenshots', mockups, only] = process.argv.slice(2)
const isForDocs = to === 'docs'
const folder = isForDocs ? 'docs/images' : to

type Shot = {
  name: string
  path: string
  prepare?: (page: Watched) => Promise<unknown>
  /** Its file in docs/images. */
  inDocs?: string
}

const addRule = async (page: Watched) => {
  await press(page, 'Add rule')
  await page.getByLabel('Address or range').fill('192.0.2.128/27')
  await press(page, 'Add rule')
}

const reviewRule = async (page: Watched) => {
  await addRule(page)
  await press(page, 'Review and save')
  await page.getByRole('button', { name: 'Save rules' }).waitFor()
}

const openRoute = (page: Watched) => page.getByRole('button', { name: '/api/ Prefix' }).click()

const openHeaders = async (page: Watched) => {
  await page.getByRole('button', { name: '/ Prefix', exact: true }).click()
  await page.locator('.module', { hasText: 'Request headers' }).getByRole('button').click()
  await page.getByRole('dialog').waitFor()
}

const shotsOf = ({
  policy,
  edge,
  toApi,
  tcp,
  request,
  domain,
  certificate,
  webhook,
}: Awaited<ReturnType<typeof furnishShop>>): Shot[] => [
  { name: 'overview', path: '/' },
  { name: 'traffic', path: `/traffic/${request}`, inDocs: 'dashboard-traffic.png' },
  { name: 'traffic-list', path: '/traffic' },
  { name: 'keys-list', path: '/keys' },
  { name: 'keys', path: '/keys', prepare: (page) => press(page, 'Create key') },
  { name: 'keys-menu', path: '/keys', prepare: (page) => press(page, 'Actions for Grafana') },
  { name: 'policies', path: '/policies' },
  { name: 'policy', path: `/policies/${policy.id}`, prepare: addRule },
  { name: 'policy-review', path: `/policies/${policy.id}`, prepare: reviewRule },
  { name: 'restrictions', path: '/restrictions' },
  { name: 'edges', path: '/edges' },
  { name: 'edge', path: `/edges/${edge.id}` },
  { name: 'edge-create', path: '/edges', prepare: (page) => press(page, 'Create HTTPS edge') },
  { name: 'edge-cells', path: `/edges/${tcp.id}`, prepare: (page) => press(page, 'More actions > Edit cells…') },
  { name: 'edge-tcp', path: `/edges/${tcp.id}` },
  { name: 'edge-route', path: `/edges/${edge.id}`, prepare: openRoute },
  { name: 'headers', path: `/edges/${edge.id}`, prepare: openHeaders, inDocs: 'dashboard-headers.png' },
  { name: 'check', path: '/check?ip=203.0.113.201&target=api' },
  { name: 'check-route', path: `/check?ip=203.0.113.196&target=${toApi.id}`, inDocs: 'dashboard-check.png' },
  { name: 'newly-refused', path: '/newly-refused' },
  {
    name: 'newly-refused-allow',
    path: '/newly-refused',
    async prepare(page) {
      await press(page, 'Allow this address…')
      await page.getByRole('button', { name: 'Save rules' }).waitFor()
    },
  },
  { name: 'audit', path: '/audit' },
  { name: 'backends', path: '/backends' },
  { name: 'domains', path: '/domains' },
  { name: 'domain', path: `/domains/${domain.id}` },
  { name: 'certificates', path: '/certificates' },
  { name: 'certificate', path: `/certificates/${certificate.id}` },
  { name: 'certificate-upload', path: '/certificates', prepare: (page) => press(page, 'Upload certificate') },
  { name: 'nodes', path: '/nodes' },
  { name: 'node', path: '/nodes/fra-1' },
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

/** A shop's account as a process shows it that started after its nodes had reported. */
async function furnished(scope: Scope) {
  const nats = await startNats()
  scope.after(() => nats.stop())
  const plane = await startDashboard(scope)
  await addSigningKey(plane.db, secretsBox)
  const admin = await plane.newAccount()
  await furnishRefusal(admin, { port: plane.processes[0]?.port ?? 0, name: 'Build machines' })
  const shop = await furnishShop(plane.db, admin)
  await poll(
    async () => (await admin('GET', '/newly_refused_addresses')).body.newly_refused_addresses,
    (list) => list.length > 0,
  )
  return { admin, shots: shotsOf(shop), origin: await startAnotherDashboard(plane, nats.controlPlane) }
}

const isWanted = ({ name, inDocs }: Pick<Shot, 'name' | 'inDocs'>): boolean =>
  isForDocs ? inDocs !== undefined : !only || only.split(',').includes(name)

async function open(page: Watched, url: string): Promise<void> {
  await page.goto(url)
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page.locator('.skeleton').first().waitFor({ state: 'detached' })
  // A page that watches is never idle.
  if (url.includes('/traffic')) await page.getByRole('table', { name: 'Requests' }).waitFor()
  else await page.waitForLoadState('networkidle')
}

await ensureDashboard()
await drill(async (scope) => {
  const { admin, shots, origin } = await furnished(scope)
  const development = isWanted({ name: 'components' }) && (await startDevelopmentBuild(scope, origin, admin.token))
  const browser = await openBrowser(scope)
  await mkdir(folder, { recursive: true })
  const faults: string[] = []
  const made: string[] = []
  for (const colorScheme of isForDocs ? (['light'] as const) : (['light', 'dark'] as const))
    for (const width of isForDocs ? [1440] : [390, 1440]) {
      const page = await openPage(browser, { colorScheme, viewport: { width, height: 900 } })
      const shoot = async (name: string, file = `${name}-${width}-${colorScheme}.png`) => {
        made.push(file)
        await page.screenshot({ path: join(folder, file), fullPage: !isForDocs })
        await placeBeside(browser, name, width, colorScheme)
      }
      await page.goto(`${origin}/dashboard/`)
      await page.getByRole('heading', { name: 'Sign in' }).waitFor()
      if (isWanted({ name: 'sign-in' })) await shoot('sign-in')
      await signIn(page, origin, admin.token)
      for (const { name, path, prepare, inDocs } of shots.filter(isWanted)) {
        await open(page, `${origin}/dashboard${path}`)
        await prepare?.(page)
        await shoot(name, isForDocs ? inDocs : undefined)
      }
      if (development) {
        await page.goto(`${development}/components`)
        await page.getByRole('heading', { name: 'Components', level: 1 }).waitFor()
        await shoot('components')
      }
      faults.push(...page.faults)
      await page.context().close()
    }
  console.log(`${made.length} pictures in ${folder}`)
  for (const fault of faults) console.error(fault)
  return faults.length === 0
})
