// The Traffic page with what nodes tell over NATS: what happens now, what was kept, and what goes wrong in between.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { startNats } from '../../dev/nats.ts'
import { repairRollUps } from '../../src/access/evidence/roll_ups.ts'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { defaultChannels } from '../../src/distribution/channels.ts'
import type { EdgeRequest } from '../../src/distribution/requests.ts'
import { readWatches, type Watch } from '../../src/distribution/watches.ts'
import { type Id, newUuid, toUuid } from '../../src/kernel/ids.ts'
import { connectNode, edgeRequest } from '../harness/edge_requests.ts'
import { freshHost, make } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import { openBrowser, openPage, pageTimeout, press, signIn, startDashboard } from './browser.ts'

const nats = await startNats()
after(() => nats.stop())
const plane = await startDashboard({ after }, async () => nats.controlPlane)
const { origin, newAccount } = plane
const { nats: node, deliver } = await connectNode({ after }, nats.url)
const browser = await openBrowser({ after })

let watches: Watch[] = []
node.subscribe(defaultChannels.watches, {
  callback: (_, message) => {
    watches = readWatches(message.string())?.watches ?? []
  },
})
await node.flush()

type Owner = { accountId: string }
const watchOf = ({ accountId }: Owner, isIt: (watch: Watch) => boolean = () => true): Promise<Watch> =>
  poll(
    () => watches.find((watch) => watch.account === accountId && isIt(watch)),
    (watch) => watch !== undefined,
  ) as Promise<Watch>

/** As a node reports to viewers. */
function tell(watch: Watch, requests: readonly EdgeRequest[], dropped = 0): void {
  for (let from = 0; from < requests.length || from === 0; from += 100) {
    const lines = requests.slice(from, from + 100).map((request) => ({ watches: [watch.id], request }))
    const lost = dropped > 0 && from === 0 ? [{ watch: watch.id, count: dropped }] : []
    node.publish(defaultChannels.tail('edge-1'), JSON.stringify({ node: 'edge-1', lines, dropped: lost }))
  }
}

const liveState = (page: Page, words: string) =>
  page.getByRole('status', { name: 'Live state' }).getByText(words, { exact: true }).waitFor()
const rowOf = (page: Page, text: string) =>
  page.getByRole('table', { name: 'Requests' }).getByRole('row').filter({ hasText: text })
/** Rows stand still under the pointer. */
const pointAway = (page: Page) => page.mouse.move(5, 5)

async function shop() {
  const admin = await newAccount()
  const policyId = await policyWith(admin, 'allow 192.0.2.0/24', 'deny 192.0.2.66 # abuse')
  const { body: policy } = await admin('PATCH', `/ip_policies/${policyId}`, { description: 'Partners' })
  const { body: rules } = await admin('GET', `/ip_policies/${policyId}/rules`)
  const deny = rules.rules.find(({ action }: { action: string }) => action === 'deny')
  const edge = await make(admin, '/edges/https', { hostports: [`${freshHost()}:443`], description: 'Storefront' })
  const route = await make(admin, `/edges/https/${edge.id}/routes`, {
    match_type: 'path_prefix',
    match: '/',
    ip_restriction: { ip_policy_ids: [policyId] },
  })
  const refused = (fields: Partial<EdgeRequest> = {}) =>
    edgeRequest(admin, edge, { route: route.id, policy: policy.id, ...fields })
  return { admin, policy, deny, edge, route, refused }
}

test('requests appear as they happen, newest first, can be paused, and are filtered on the node', async () => {
  const { admin, edge, refused } = await shop()
  const earlier = refused({ source: '198.51.100.1', path: '/earlier' })
  await deliver([earlier])
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/traffic')
  await liveState(page, 'Live')
  await rowOf(page, '/earlier').waitFor()
  const watch = await watchOf(admin)
  assert.deepEqual([watch.edge, watch.outcome, watch.source], [null, null, null])
  const [first, second] = [
    edgeRequest(admin, edge, {
      outcome: 'allowed',
      reason: null,
      status: 200,
      path: '/first',
      upstream: '192.0.2.9:80',
    }),
    refused({ source: '198.51.100.2', path: '/second' }),
  ]
  tell(watch, [first])
  await rowOf(page, '/first').getByText('Allowed').waitFor()
  tell(watch, [second, second, earlier])
  const row = rowOf(page, '/second')
  await row.getByText('Refused').waitFor()
  await row.getByText('No rule matches in Partners').waitFor()
  const paths = async () => (await page.locator('.verb ~ .mono').allInnerTexts()).join(' ')
  assert.equal(await paths(), '/second /first /earlier', 'each once, newest first')

  await press(page, 'Pause')
  await liveState(page, 'Paused')
  tell(watch, [refused({ path: '/third' })])
  await page.getByRole('button', { name: '1 request new' }).waitFor()
  assert.equal(await rowOf(page, '/third').count(), 0)
  await press(page, 'Resume')
  await rowOf(page, '/third').waitFor()
  await liveState(page, 'Live')

  // Under the pointer rows stand still, or a click would meet another one than it was meant for.
  await row.hover()
  tell(watch, [refused({ path: '/fourth' })])
  await page.getByRole('button', { name: '1 request new' }).waitFor()
  assert.equal(await rowOf(page, '/fourth').count(), 0)
  await pointAway(page)
  await rowOf(page, '/fourth').waitFor()

  tell(watch, [refused()], 1_204)
  await page.getByText('1,204 requests came too fast to be shown.').waitFor()

  await press(page, 'Refused')
  await page.getByLabel('Edge', { exact: true }).selectOption({ label: 'Storefront' })
  await page.getByRole('searchbox').fill('198.51.100.0/24')
  await watchOf(
    admin,
    (each) => each.source === '198.51.100.0/24' && each.outcome === 'refused' && each.edge === edge.id,
  )
  await rowOf(page, '/first').waitFor({ state: 'detached' })
  await poll(paths, (shown) => shown === '/second /earlier' || shown === '/earlier')
  const url = new URL(page.url())
  assert.deepEqual(
    [url.searchParams.get('show'), url.searchParams.get('edge'), url.searchParams.get('from')],
    ['refused', edge.id, '198.51.100.0/24'],
  )
  await page.getByRole('searchbox').fill('198.51.100.')
  await page.getByText('Enter a whole address').waitFor()
  assert.deepEqual(page.faults, [])
})

test('a status filter applies to what was kept and to what comes', async () => {
  const { admin, refused } = await shop()
  const failed = refused({ outcome: 'failed', reason: 'response_timeout', status: 504, path: '/slow', policy: null })
  await deliver([failed, refused({ path: '/refused' })])
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/traffic?status=5xx')
  await rowOf(page, '/slow').getByText('Failed 504').waitFor()
  await rowOf(page, '/slow').getByText('did not answer in time').waitFor()
  tell(await watchOf(admin), [refused({ path: '/not-this' }), { ...failed, id: newUuid(), path: '/again' }])
  await rowOf(page, '/again').waitFor()
  assert.equal(await rowOf(page, '/not-this').count(), 0)
  assert.equal(await rowOf(page, '/refused').count(), 0)
})

test('the page holds a thousand requests, however many come, and draws those in sight', async () => {
  const { admin, refused } = await shop()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/traffic')
  await liveState(page, 'Live')
  const watch = await watchOf(admin)
  // In portions, as the stream has room for some of it only.
  for (let sent = 0; sent < 1_100; sent += 100) {
    tell(
      watch,
      Array.from({ length: 100 }, (_, n) => refused({ path: `/many-${sent + n}` })),
    )
    await rowOf(page, `/many-${sent + 99}`).waitFor()
  }
  await page.getByText('Only the newest 1,000 are shown.').waitFor()
  assert.equal(await page.getByRole('table', { name: 'Requests' }).getAttribute('aria-rowcount'), '1001')
  assert.ok((await page.getByRole('table', { name: 'Requests' }).getByRole('row').count()) < 80)
  assert.deepEqual(page.faults, [])
})

test('a request shows its decision down to the rule, and a deny is changed where an allow is added otherwise', async () => {
  const { admin, policy, deny, route, refused } = await shop()
  const [denied, unmatched] = [
    refused({ source: '192.0.2.66', rule: deny.id, path: '/denied' }),
    refused({ source: '198.51.100.7', path: '/unmatched' }),
  ]
  await deliver([denied, unmatched])
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/traffic')
  await rowOf(page, '/denied').getByText('deny 192.0.2.66/32 in Partners').waitFor()

  // With the keyboard: to a row, into its panel, to the next one, and back to the row.
  const link = (ip: string) => page.getByRole('link', { name: ip, exact: true })
  await link('198.51.100.7').focus()
  await page.keyboard.press('ArrowDown')
  await link('192.0.2.66').and(page.locator(':focus')).waitFor()
  await page.keyboard.press('Enter')
  const decision = page.getByRole('region', { name: 'Decision' })
  await decision.getByText('192.0.2.66/32').waitFor()
  assert.equal(new URL(page.url()).pathname, `/dashboard/traffic/${denied.id}`)
  assert.match(
    (await decision.innerText()).replaceAll(/\s+/g, ' '),
    /Arrived at edge-1 .* Route \/ of Storefront own policies, enforced Partners Rule Deny 192\.0\.2\.66\/32 matches\. abuse Refused with 403/,
  )
  await page.getByRole('button', { name: 'Change rule…' }).waitFor()
  await page.keyboard.press('ArrowUp')
  await decision.getByText('No rule matches.').waitFor()
  assert.equal(new URL(page.url()).pathname, `/dashboard/traffic/${unmatched.id}`)
  await page.getByRole('region', { name: 'This address' }).getByText('1 refused').waitFor()
  await press(page, 'Allow this address…')
  const review = page.getByRole('dialog', { name: 'Change Partners' })
  await review.getByText('198.51.100.7/32').waitFor()
  // Arrow keys in a dialog of the panel are the dialog's.
  await page.keyboard.press('ArrowDown')
  await review.getByRole('button', { name: 'Save rules' }).click()
  await review.waitFor({ state: 'detached' })
  await page.getByText('this address would be let in now').waitFor()
  const { body } = await admin('POST', '/ip_checks', { ip: '198.51.100.7', route_id: route.id })
  assert.equal(body.allowed, true)
  await page.getByRole('button', { name: 'Close', exact: true }).click()
  await page.waitForURL((url) => url.pathname === '/dashboard/traffic')

  await page.getByRole('button', { name: /^Actions for the request of 192\.0\.2\.66/ }).click()
  await page.getByRole('menuitem', { name: 'Change rule…' }).click()
  await page.getByRole('dialog', { name: 'Change deny 192.0.2.66/32' }).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: /^Actions for the request of 192\.0\.2\.66/ }).click()
  await page.getByRole('menuitem', { name: 'Check this address' }).click()
  await page.getByRole('region', { name: 'Evaluation' }).getByText('Refused', { exact: true }).waitFor()
  assert.equal(policy.description, 'Partners')
  assert.deepEqual(page.faults, [])
})

test('a request id is resolved from its link, the search and the search of the page; another account finds nothing', async () => {
  const { admin, deny, refused } = await shop()
  const request = refused({ source: '192.0.2.66', rule: deny.id })
  await deliver([request])
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  await page.keyboard.press('Control+k')
  await page.getByRole('dialog', { name: 'Search' }).waitFor()
  await page.keyboard.type(request.id.toUpperCase())
  await page.getByRole('menuitem', { name: request.id }).waitFor()
  await page.keyboard.press('Enter')
  const decision = page.getByRole('region', { name: 'Decision' })
  await decision.getByText('192.0.2.66/32').waitFor()
  assert.equal(new URL(page.url()).pathname, `/dashboard/traffic/${request.id}`)

  // A person who is quicker than the node waits for it, as long as the request is new by its id.
  await page.goto(`${origin}/dashboard/traffic`)
  await page.getByRole('searchbox').waitFor()
  const late = refused({ source: '192.0.2.67' })
  await page.getByRole('searchbox').fill(late.id)
  await page.getByText('Looking for the request…').waitFor()
  await deliver([late])
  await page.getByRole('heading', { name: '192.0.2.67' }).waitFor()

  const stranger = await openPage(browser)
  await signIn(
    stranger,
    origin,
    (await newAccount()).token,
    `/traffic/${request.id.replace(/^.{13}/, '019a0000-0000')}`,
  )
  await stranger.getByText('No such request is kept').waitFor()
  await stranger.goto(`${origin}/dashboard/traffic/${request.id}`)
  await stranger.getByText('No such request is kept').waitFor({ timeout: pageTimeout(30_000) })
  assert.equal(await stranger.getByText('192.0.2.66').count(), 0)
  await stranger.getByText('No requests yet').waitFor()
  assert.deepEqual([...page.faults, ...stranger.faults], [])
})

test('a viewer can watch, sees no source address, and is offered no change', async () => {
  const { admin, refused } = await shop()
  const viewer = await newUser(plane, admin, 'viewer')
  const request = refused({ path: '/seen' })
  await deliver([request])
  const page = await openPage(browser)
  await signIn(page, origin, viewer.token, `/traffic/${request.id}`)
  await page.getByRole('region', { name: 'Decision' }).getByText('No rule matches.').waitFor()
  await page.getByRole('button', { name: 'Pause' }).waitFor()
  await page.getByRole('heading', { name: 'Address not shown' }).waitFor()
  assert.equal(await page.getByText('192.0.2.66').count(), 0)
  assert.equal(await page.getByRole('link', { name: 'Check this address' }).count(), 0)
  assert.equal(await page.getByRole('button', { name: 'Allow this address…' }).count(), 0)
})

test('a broken stream says so, reconnects by itself and shows what was refused in between', async () => {
  const { admin, refused } = await shop()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/traffic')
  await liveState(page, 'Live')
  const before = await watchOf(admin)
  await page.route('**/requests/stream**', (route) => route.abort())
  await press(page, 'Refused')
  await liveState(page, 'Connection lost, trying again…')
  await page.getByText('New requests are not shown until the connection is back.').waitFor()
  const missed = refused({ path: '/missed' })
  await deliver([missed])
  await page.unroute('**/requests/stream**')
  await liveState(page, 'Live')
  await rowOf(page, '/missed').waitFor()
  const now = await watchOf(admin, ({ id }) => id !== before.id)
  tell(now, [refused({ path: '/after' })])
  await rowOf(page, '/after').waitFor()
  assert.equal(await page.getByText('New requests are not shown').count(), 0)
})

test('the overview names who is refused by edges and leads there, and so do its bars and the page of an edge', async () => {
  const { admin, edge, route, refused } = await shop()
  const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000)
  const [one, two] = [
    refused({ path: '/one', source: '198.51.100.7' }),
    refused({ path: '/two', source: '198.51.100.7' }),
  ]
  await deliver([one, two])
  await run(
    plane.db,
    sql`insert into edge_counts (account_id, edge_id, hour, source_ip, outcome, by_module, count, last_at)
        values (${toUuid(admin.accountId as Id<'ac'>)}, ${toUuid(route.id as Id<'edghtsrt'>)}, ${hour.toISOString()},
          '198.51.100.7', 'refused', true, 2, now())`,
  )
  await repairRollUps(plane.db)
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  const row = page
    .getByRole('table', { name: 'Refused addresses' })
    .getByRole('row')
    .filter({ hasText: '198.51.100.7' })
  await row.getByText('No rule allows it in Partners').waitFor()
  assert.match(await row.innerText(), /shop\.example/)
  assert.ok((await row.getByRole('cell').allInnerTexts()).includes('2'))
  // Its own policies refuse some of it: that is not open.
  const restricted = page
    .getByRole('table', { name: 'What is restricted' })
    .getByRole('row')
    .filter({ hasText: 'Endpoints' })
  await restricted.getByText('Own policies of 1 of 1').waitFor()
  assert.equal(await restricted.getByText('Open', { exact: true }).count(), 0)
  await row.getByRole('link').click()
  await page.getByRole('region', { name: 'Decision' }).waitFor()
  assert.match(page.url(), new RegExp(`/traffic/(${one.id}|${two.id})$`))

  await page.goto(`${origin}/dashboard/`)
  await page.getByText('View as table').click()
  const bar = page
    .locator('table.fit')
    .getByRole('row')
    .filter({ has: page.getByRole('cell', { name: '2', exact: true }) })
  await bar.getByRole('link').click()
  await page.getByRole('status', { name: 'Live state' }).getByText('Past requests').waitFor()
  assert.equal(new URL(page.url()).searchParams.get('since'), hour.toISOString())
  await rowOf(page, '/one').waitFor()
  await press(page, 'Remove time filter')
  await liveState(page, 'Live')

  await page.goto(`${origin}/dashboard/edges/${edge.id}`)
  await page.getByRole('link', { name: 'Traffic of this edge' }).click()
  await rowOf(page, '/two').waitFor()
  assert.equal(new URL(page.url()).searchParams.get('edge'), edge.id)
  assert.deepEqual(page.faults, [])
})
