// `npm run drill -- large-account <edges> <rules> <rounds>`: pages of an account with 10,000 edges and a policy of 100,000
// rules are opened, scrolled, sorted, filtered and searched. How long is the longest task of each, in processor time and,
// which other programs on the machine make longer, by the clock?
import { ensureDashboard } from '../../dev/dashboard.ts'
import { openBrowser, openPage, signIn, startDashboard } from '../dashboard/browser.ts'
import { longestTask, traced } from '../dashboard/longest_task.ts'
import { drill } from '../harness/drill.ts'
import { make } from '../harness/fixtures.ts'
import { insertEdges } from '../harness/insert_edges.ts'
import { putRules } from '../harness/ip.ts'
import { quantile } from '../harness/quantiles.ts'

const [edges = 10_000, rules = 100_000, rounds = 5] = process.argv.slice(2).map(Number)
const bound = 100

const watch = `
  window.longest = 0
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration)
  }).observe({ entryTypes: ['longtask'] })`
/** Entries come after the task that they are about. */
const takeLongest = 'new Promise((done) => setTimeout(() => { done(window.longest); window.longest = 0 }, 300))'

await ensureDashboard()
await drill(async (scope) => {
  const { origin, newAccount, db } = await startDashboard(scope)
  const admin = await newAccount()
  const policy = await make(admin, '/ip_policies', { description: 'feed' })
  await putRules(
    admin,
    policy.id,
    Array.from(
      { length: rules },
      (_, i) => `${i % 3 ? 'deny' : 'allow'} ${11 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}.0/24 # entry ${i}`,
    ),
  )
  const backend = await make(admin, '/backends/static', { address: 'app.internal:8080' })
  await insertEdges({ db, admin }, edges, { backendId: backend.id, policyId: policy.id })
  const browser = await openBrowser(scope)
  const page = await openPage(browser)
  page.context().setDefaultTimeout(120_000)
  await signIn(page, origin, admin.token)
  const found = new Map<string, { processor: number; clock: number }[]>()
  const measure = async (what: string, act: () => Promise<unknown>) => {
    await page.evaluate('window.longest = 0')
    await browser.startTracing(page, traced)
    await act()
    const clock = await page.evaluate<number>(takeLongest)
    found.set(what, [...(found.get(what) ?? []), { processor: longestTask(await browser.stopTracing()).task, clock }])
  }
  const search = page.getByLabel('Search')
  const scroll = async () => {
    await page.getByRole('table').first().hover()
    for (let turn = 0; turn < 25; turn++) await page.mouse.wheel(0, 1_500)
    await page.evaluate('window.scrollTo(0, 300_000)')
    for (let turn = 0; turn < 25; turn++) await page.mouse.wheel(0, -1_500)
  }
  for (let round = 0; round < rounds; round++) {
    const began = performance.now()
    await page.goto(`${origin}/dashboard/edges`)
    await page.evaluate(watch)
    await measure('edges: load', () => page.getByText(new RegExp(`^${edges.toLocaleString('en')} edges`)).waitFor())
    console.log(`round ${round + 1}: ${edges} edges shown after ${((performance.now() - began) / 1_000).toFixed(1)} s`)
    await measure('edges: scroll', scroll)
    await measure('edges: search', async () => {
      await search.pressSequentially('h019')
      await search.fill('')
    })
    await measure('edges: filter', () => page.getByRole('button', { name: /^TCP/ }).click())
    await page.getByRole('button', { name: /^All edges/ }).click()
    await measure('edges: sort', () => page.getByRole('button', { name: 'Edge', exact: true }).click())
    await page.goto(`${origin}/dashboard/policies/${policy.id}`)
    await page.getByRole('heading', { name: `${rules.toLocaleString('en')} rules` }).waitFor()
    await page.evaluate(watch)
    await measure('rules: scroll', scroll)
    await measure('rules: search', async () => {
      await search.pressSequentially('12.34.5')
      await page.getByRole('heading', { name: / of .* rules$/ }).waitFor()
      await search.fill('')
    })
    await measure('rules: filter', () => page.getByRole('button', { name: /^Deny/ }).click())
  }
  let isGood = true
  for (const [what, tasks] of found) {
    const processor = tasks.map((task) => task.processor)
    const median = quantile(processor, 0.5)
    const shown = (times: readonly number[]) => times.map((time) => time.toFixed(0)).join(', ')
    console.log(
      `${what}: longest task, median ${median.toFixed(0)} ms of processor time (${shown(processor)}); by the clock ${shown(tasks.map(({ clock }) => clock))}`,
    )
    isGood &&= median < bound
  }
  return isGood && page.faults.length === 0
})
