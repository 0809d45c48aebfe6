import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { poll } from '../harness/poll.ts'
import { openBrowser, openPage, startDashboard, type Watched } from './browser.ts'
import { furnish } from './furnish.ts'

const { origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })

const settled = (page: Watched) => poll(page.quietFor, (milliseconds) => milliseconds >= 500)

test('the overview makes few calls when it is opened, and few while it is left open', async (t) => {
  const admin = await newAccount()
  await furnish(admin)
  const page = await openPage(browser)
  const signedIn = await page.request.post(`${origin}/dashboard_session`, {
    headers: { 'service-version': '2', origin },
    data: { token: admin.token },
  })
  assert.equal(signedIn.status(), 201)
  await page.clock.install()
  const calls: string[] = []
  page.on('request', (request) => {
    const { pathname, search } = new URL(request.url())
    if (!/^\/dashboard\/(assets\/|$)|\.\w+$/.test(pathname)) calls.push(pathname + search)
  })
  await page.goto(`${origin}/dashboard/`)
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  await page.getByRole('region', { name: 'Latest changes' }).getByText('siem').first().waitFor()
  await settled(page)
  const opening = calls.splice(0)
  // From here on, time passes only as told.
  await page.clock.pauseAt(await page.evaluate<number>('Date.now() + 1_000'))
  for (let second = 1; second < 60; second++) {
    await page.clock.runFor(1_000)
    if (page.quietFor() < 200) await settled(page)
  }
  await settled(page)
  t.diagnostic(`opening ${opening.length}, a minute ${calls.length}`)
  assert.ok(opening.length <= 6, `${opening.length} calls: ${opening.join(', ')}`)
  assert.ok(calls.length <= 6, `${calls.length} calls: ${calls.join(', ')}`)
  assert.deepEqual(page.faults, [])
})
