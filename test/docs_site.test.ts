// The documentation as a site: built from docs/, and served under /docs/ with a search.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { glob, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { docsFolder } from '../dev/docs_site/build.ts'
import { renderPage } from '../dev/docs_site/markdown.ts'
import { addressOf, sources } from '../dev/docs_site/outline.ts'
import { redirects } from '../dev/docs_site/redirects.ts'
import { commandOf, exampleOf, samples } from '../dev/docs_site/samples.ts'
import { prepare, rank } from '../dev/docs_site/search_rank.js'
import { readFlags } from '../src/cli/flags.ts'
import { findOperation, operations, usableFlags } from '../src/cli/operations.ts'
import { requestsOf } from '../src/cli/request.ts'
import { docUrlUnder } from '../src/http/refusals.ts'
import { type ErrorCode, errorCatalog } from '../src/kernel/errors.ts'
import { openBrowser, openPage, startDashboard } from './dashboard/browser.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { newcomerQuestions } from './newcomer_questions.ts'

const root = new URL('..', import.meta.url).pathname
const site = join(root, docsFolder)
const built = (path: string) => readFile(join(site, path), 'utf8')
const pages = await Array.fromAsync(glob(sources, { cwd: root }))

test('every page is in the site, and every one but decisions in the side bar', async () => {
  const home = await built('index.html')
  for (const file of pages) {
    const address = addressOf(file)
    assert.ok(existsSync(join(site, address)), `${file} is not in the site`)
    if (!/^docs\/adr\/\d/.test(file)) assert.ok(home.includes(`href="${address}"`), `${file} is not in the side bar`)
  }
})

test('every link within the site leads to a page, and to a heading on it', async () => {
  for (const file of pages) {
    const address = addressOf(file)
    for (const [, target = ''] of (await built(address)).matchAll(/(?:href|src)="([^"]*)"/g)) {
      // The service has the reference; the file is for copies of the site that no service serves.
      if (/^(https?|mailto):/.test(target) || target.endsWith('reference/')) continue
      const [path = '', anchor] = target.split('#')
      const place = path ? join(dirname(address), path) : address
      assert.ok(existsSync(join(site, place)), `${address} links to ${target}`)
      if (anchor) assert.ok((await built(place)).includes(`id="${anchor}"`), `${address} links to ${target}`)
    }
  }
})

test('an address of an earlier release leads to the page and section of today', async (t) => {
  for (const [address, { to, sections = {} }] of Object.entries(redirects)) {
    assert.ok(!pages.some((file) => addressOf(file) === address), `${address} is a page`)
    for (const target of [to, ...Object.values(sections)]) {
      const [place = '', anchor] = target.split('#')
      assert.ok(existsSync(join(site, place)), `${address} leads to ${target}`)
      if (anchor) assert.ok((await built(place)).includes(`id="${anchor}"`), `${address} leads to ${target}`)
    }
  }
  const { origin } = await startDashboard(t)
  const page = await openPage(await openBrowser(t))
  await page.goto(`${origin}/docs/errors.html#err_not_found`)
  await page.waitForURL(`${origin}/docs/reference/errors.html#err_not_found`)
})

const found = async (query: string) => rank(prepare(JSON.parse(await built('search.json'))), query)

test("a newcomer's question leads to its page within the first three results", async () => {
  const index = prepare(JSON.parse(await built('search.json')))
  assert.ok(newcomerQuestions.length >= 25)
  const missed = newcomerQuestions.flatMap(([typed, answers]) => {
    const places = rank(index, typed).map(({ address }) => address.split('#')[0] ?? '')
    return places.slice(0, 3).some((page) => answers.includes(page)) ? [] : [[typed, places]]
  })
  assert.deepEqual(missed, [])
})

test('a search finds error codes, settings and operations, and pages for users before decisions', async () => {
  const [code] = await found('ERR_NO_ROUTE')
  assert.equal(code?.address, 'reference/errors.html#err_no_route')
  const [operation] = await found('api_keys.rotate')
  assert.match(operation?.address ?? '', /^reference\/#\/.+\/api_keys\.rotate$/)
  assert.match((await found('GATEHOUSE_EDGE_HTTP3'))[0]?.address ?? '', /^reference\/(settings|edge-behavior)\.html/)
  const restriction = await found('restriction')
  const decision = restriction.findIndex(({ address }) => address.startsWith('adr/'))
  assert.ok(decision < 0 || decision > 5, JSON.stringify(restriction.map(({ address }) => address)))
})

test('the address in doc_url of every error is an entry in the site', async () => {
  const docUrl = docUrlUnder('')
  for (const code of Object.keys(errorCatalog) as ErrorCode[]) {
    const [page = '', anchor] = docUrl(code)?.replace('/docs/', '').split('#') ?? []
    assert.ok((await built(page)).includes(`id="${anchor}"`), `${code} has no entry`)
  }
})

test('nothing in a page is a script, even if its text looks like one', () => {
  const text =
    '# <script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\n[a](javascript:alert(1)) `<b>`\n\n<!-- note -->'
  const { html } = renderPage('docs/x.md', text, new Set())
  assert.doesNotMatch(html, /<script|<img|javascript:|<!--/)
  assert.match(html, /<code>&lt;b&gt;<\/code>/)
})

test('a cell of a table has the heading of its column, for screens too narrow for columns', () => {
  const { html } = renderPage('docs/x.md', '# x\n\n| a | `b` & "c" |\n|---|---|\n| 1 | 2 |', new Set())
  assert.match(html, /<td data-label="a">1<\/td>\s*<td data-label="b &#38; &#34;c&#34;">2<\/td>/)
})

test('the site is served under a strict policy, and nothing but its files', async (t) => {
  const { processes, startProcess } = await startControlPlane(t)
  const get = (path: string, init?: RequestInit) =>
    fetch(`${processes[0]?.origin}${path}`, { redirect: 'manual', ...init })
  const home = await get('/docs/')
  assert.equal(home.status, 200)
  assert.match(
    home.headers.get('content-security-policy') ?? '',
    /^default-src 'none'; script-src 'self'; style-src 'self';/,
  )
  assert.match(await home.text(), /<title>Gatehouse documentation<\/title>/)
  for (const [path, type] of [
    ['reference/cli.html', 'text/html; charset=utf-8'],
    ['adr/0001-dependencies.html', 'text/html; charset=utf-8'],
    ['images/edge.svg', 'image/svg+xml'],
    ['search.json', 'application/json'],
  ] as const) {
    const file = await get(`/docs/${path}`, { method: 'HEAD' })
    assert.deepEqual([file.status, file.headers.get('content-type')], [200, type], path)
  }
  for (const path of ['nothing.html', '..%2fpackage.json', '%2e%2e/package.json', 'adr', 'adr/', 'constructor'])
    assert.equal((await get(`/docs/${path}`)).status, 404, path)
  assert.equal((await get('/docs')).headers.get('location')?.endsWith('/docs/'), true)
  const off = await startProcess({ GATEHOUSE_DOCS: 'off' })
  assert.equal((await fetch(`${off.origin}/docs/reference/cli.html`)).status, 404)
})

test('a reader finds a section by its words, with the keyboard, and loads nothing from elsewhere', async (t) => {
  const { origin } = await startDashboard(t)
  const page = await openPage(await openBrowser(t))
  const elsewhere: string[] = []
  page.on('request', (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith('data:')) elsewhere.push(request.url())
  })
  await page.goto(`${origin}/docs/adr/0001-dependencies.html`)
  await page.keyboard.press('/')
  await page.getByRole('searchbox', { name: 'Search the documentation' }).fill('export audit')
  const first = page.locator('#found a').first()
  await first.waitFor()
  assert.match((await first.textContent()) ?? '', /^Read and export the audit log/)
  // Which of its sections comes first depends on the wording of the page.
  const address = (await first.getAttribute('href')) ?? ''
  assert.ok(address.startsWith(`${origin}/docs/guides/audit-log.html#`), address)
  await page.keyboard.press('Enter')
  await page.waitForURL(address)
  await page.getByRole('searchbox').fill('qqqq')
  await page.getByText('Nothing found.').waitFor()
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Architecture' }).click()
  await page.getByAltText('A change on its way', { exact: false }).waitFor()
  const width = await page.evaluate(
    "(async (image) => (await image.decode(), image.naturalWidth))(document.querySelector('main img'))",
  )
  assert.equal(width, 900)
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'API reference' }).click()
  await page.getByRole('button', { name: 'Authorize' }).first().waitFor()
  assert.deepEqual(elsewhere, [])
  assert.deepEqual(page.faults, [])
})

test('a reader on a phone has a menu, copies code, and follows the pages one after another', async (t) => {
  const { origin } = await startDashboard(t)
  const browser = await openBrowser(t)
  const page = await openPage(browser, {
    viewport: { width: 390, height: 844 },
    permissions: ['clipboard-read', 'clipboard-write'],
  })
  await page.goto(`${origin}/docs/`)
  await page.getByRole('heading', { name: 'Gatehouse documentation' }).waitFor()
  await page.getByText('All pages').click()
  await page.getByRole('navigation', { name: 'Menu' }).getByRole('link', { name: 'Install with Docker' }).click()
  await page.waitForURL(`${origin}/docs/guides/install-docker.html`)
  await page.getByRole('note').getByText('Warning').waitFor()
  const code = page.locator('.code').first()
  await code.getByRole('button', { name: 'Copy' }).click()
  await code.getByRole('button', { name: 'Copied' }).waitFor()
  assert.match(await page.evaluate('navigator.clipboard.readText()'), /^cd deploy\/compose\n/)
  await page.getByRole('link', { name: 'Next Install on Kubernetes' }).click()
  await page.waitForURL(`${origin}/docs/guides/install-kubernetes.html`)
  const isWider = 'document.documentElement.scrollWidth > document.documentElement.clientWidth'
  assert.equal(await page.evaluate(isWider), false)
  assert.deepEqual(page.faults, [])
})

test('every operation has samples, and its command sends the request of the example', async () => {
  const known = samples()
  for (const operation of operations) {
    const labels = known[`${operation.method} ${operation.path}`]?.map(({ label }) => label)
    assert.deepEqual(labels, ['curl', 'Command line', 'TypeScript'], operation.id)
    const example = exampleOf(operation)
    const found = findOperation(commandOf(operation, example))
    assert.ok('operation' in found && found.operation === operation, operation.id)
    // Its command names files, which are not here.
    if (found.rest.some((argument) => argument.endsWith('-file'))) continue
    const [call] = await requestsOf(operation, readFlags(found.rest, operation.flags, usableFlags(operation)))
    const query = new URLSearchParams(call?.query as Record<string, string>).toString()
    assert.equal(`${call?.path}${query && `?${query}`}`, example.path)
    assert.deepEqual(call?.body && JSON.parse(call.body), example.body, operation.id)
  }
})
