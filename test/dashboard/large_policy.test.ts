import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { make } from '../harness/fixtures.ts'
import { putRules } from '../harness/ip.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { openBrowser, openPage, signIn, startDashboard } from './browser.ts'
import { longestTask, traced } from './longest_task.ts'

const { origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })

/** The time between frames, from now until asked: a page that is busy draws none. */
const startFrames = `
  window.frames_ = []
  window.isWatching = true
  let last = performance.now()
  requestAnimationFrame(function next(now) {
    window.frames_.push(now - last)
    last = now
    if (window.isWatching) requestAnimationFrame(next)
  })`
const stopFrames = 'window.isWatching = false; Math.max(...window.frames_)'

test('scrolling and searching 100,000 rules has no task of 100 ms', async (t) => {
  const admin = await newAccount()
  const policy = await make(admin, '/ip_policies', { description: 'feed' })
  const lines = Array.from(
    { length: 100_000 },
    (_, i) => `${i % 3 ? 'deny' : 'allow'} ${11 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}.0/24 # entry ${i}`,
  )
  assert.equal((await putRules(admin, policy.id, lines)).status, 200)
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, `/policies/${policy.id}`)
  await page.getByRole('heading', { name: '100,000 rules' }).waitFor()
  const table = page.getByRole('table', { name: 'Rules' })
  await table.and(page.locator('[aria-rowcount="100001"]')).waitFor()
  assert.ok((await table.getByRole('row').count()) < 80, 'only the rows in sight are in the page')
  const search = page.getByLabel('Search')

  const scrollAndSearch = async () => {
    await browser.startTracing(page, traced)
    await page.evaluate(startFrames)
    await table.hover()
    for (let turn = 0; turn < 25; turn++) await page.mouse.wheel(0, 1_500)
    await page.evaluate('window.scrollTo(0, 2_000_000)')
    for (let turn = 0; turn < 25; turn++) await page.mouse.wheel(0, -1_500)
    await search.pressSequentially('12.34.5')
    await page.getByRole('heading', { name: /^\d+ of 100,000 rules$/ }).waitFor()
    await search.fill('')
    await search.pressSequentially('entry 9999')
    await page.getByRole('heading', { name: '11 of 100,000 rules' }).waitFor()
    await search.fill('')
    await page.getByRole('heading', { name: '100,000 rules', exact: true }).waitFor()
    const frame = await page.evaluate<number>(stopFrames)
    return { frame, ...longestTask(await browser.stopTracing()) }
  }
  // Other programs can only make a task or a frame longer, so the shortest of a few rounds count.
  const rounds = [await scrollAndSearch()]
  const best = (what: 'task' | 'frame') => Math.min(...rounds.map((round) => round[what]))
  // A frame also waits while other programs have the processor.
  const longestFrame = () => loadScaledTimeout(100) + 300
  while (rounds.length < 5 && (best('task') >= 100 || best('frame') >= longestFrame()))
    rounds.push(await scrollAndSearch())
  t.diagnostic(
    `longest frame ${best('frame').toFixed(0)} ms; longest task ${best('task').toFixed(0)} ms of processor time`,
  )
  assert.ok(best('task') < 100, rounds.map(({ task, parts }) => `a task of ${task} ms: ${parts}`).join('\n'))
  assert.ok(best('frame') < longestFrame(), `a frame of ${best('frame')} ms`)

  // An address finds the ranges that it lies in.
  await search.fill('12.34.5.99')
  await page.getByRole('heading', { name: '1 of 100,000 rules' }).waitFor()
  await page.getByRole('cell', { name: '12.34.5.0/24', exact: true }).waitFor()
  assert.deepEqual(page.faults, [])
})
