// A change on its way through two waves of real nodes, as people follow it, halt it, and decide about it.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toId } from '../../src/kernel/ids.ts'
import { startTwoWaves } from '../fleet/two_waves.ts'
import { poll } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import { inspect, type Seen } from './axe.ts'
import { goTo, goToAll, openBrowser, openPage, press, signIn, startAnotherDashboard, usualSize } from './browser.ts'
import { keyboardOf } from './keyboard.ts'

const file = { after: (cleanUp: () => Promise<void>) => after(cleanUp) }
const waves = await startTwoWaves(file, 3_600_000)
const { fleet, newTenant, answers, open, settled } = waves
const { db } = fleet
const canary = await waves.startNode('edge-canary', 0)
const shop = await newTenant('shop.example')
const later = await waves.startNode('edge-later', 1)
await answers(later, shop, 200)
const origin = await startAnotherDashboard(fleet, fleet.nats.controlPlane)
const browser = await openBrowser(file)

const { client: admin } = shop
const watchFor = (seconds: number) => run(db, sql`update cells set soak_seconds = ${seconds}`)
const seen: Seen = { light: [], dark: [] }

/** For a look at them: GATEHOUSE_TEST_SHOTS names a folder. */
async function shot(page: Page, name: string): Promise<void> {
  const folder = process.env.GATEHOUSE_TEST_SHOTS
  if (!folder) return
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    await page.screenshot({ path: `${folder}/${name}-${colorScheme}.png`, fullPage: true })
  }
}

async function pageOf(token: string, path = '/') {
  const page = await openPage(browser)
  await signIn(page, origin, token, path)
  return page
}

/** Lets more in, so that it takes no faster lane: its rollout is watched until someone decides. */
async function change(): Promise<string> {
  await admin('POST', '/ip_policy_rules', {
    ...{ ip_policy_id: shop.policy.id, action: 'allow', description: 'a new partner' },
    cidr: `192.0.2.${counter++}/32`,
  })
  return first()
}
let counter = 1
/** The one that can be decided about. */
async function first(): Promise<string> {
  const rollout = await poll(
    async () => (await open(shop)).find(({ is_first }) => is_first),
    (found) => found !== undefined,
  )
  return toId('ro', rollout?.public_id ?? assert.fail())
}
const decide = (id: string, verb: string, reason = 'a test') => admin('POST', `/rollouts/${id}/${verb}`, { reason })
const release = async (id: string) => {
  await decide(id, 'release')
  await settled(shop)
}

test('the toast after a save follows the change through the waves, and leads to its page', async () => {
  await watchFor(4)
  const page = await pageOf(shop.client.token, `/policies/${shop.policy.id}`)
  await press(page, 'Add rule')
  await page.getByLabel('Address or range').fill('203.0.113.0/28')
  await page.getByRole('dialog').getByRole('button', { name: 'Add rule' }).click()
  await press(page, 'Review and save')
  await press(page, 'Save rules')
  const toast = page.locator('.toast')
  await toast.getByText('Saved. On wave 0, 1 of 2 nodes.').waitFor()
  await shot(page, 'toast')
  await inspect(page, 'the toast', seen, '.toast')
  await toast.getByText('Saved. In force everywhere.').waitFor()
  await watchFor(3_600)
  await toast.getByRole('link', { name: 'Show the rollout' }).click()
  await page.getByText('In force everywhere', { exact: true }).waitFor()
  await page.getByRole('link', { name: 'guards shop.example', exact: true }).waitFor()
  assert.deepEqual(page.faults, [])
})

test('a rollout is followed while it runs, halted with a reason, and what is known of each node is said', async () => {
  const id = await change()
  const page = await pageOf(admin.token, '/rollouts?state=watching')
  await page.getByRole('row').filter({ hasText: 'wave 0; the last is 1' }).getByRole('link').click()
  const board = page.getByRole('region', { name: 'Waves and nodes' })
  await board.getByText('has the changes', { exact: true }).waitFor()
  await board.getByText('has what was before', { exact: true }).waitFor()
  await page.getByText('On 1 of 2 nodes').waitFor()
  await page.getByText(/Watched for [\d,]+ more seconds/).waitFor()
  await shot(page, 'watching')
  await inspect(page, 'a rollout that is watched', seen)

  await press(page, 'Halt…')
  const dialog = page.getByRole('dialog')
  await dialog.getByText('get back what they had before').waitFor()
  await inspect(page, 'halt a rollout', seen, '.modal')
  await dialog.getByLabel('Reason').fill('logins fail')
  await shot(page, 'halt')
  await dialog.getByRole('button', { name: 'Halt', exact: true }).click()
  await page.getByText('Halted: logins fail').waitFor()
  await page.getByText('All 2 nodes have what was there before the changes.').waitFor()
  await page.getByText('a person halted it').waitFor()
  assert.equal((await admin('GET', `/rollouts/${id}`)).body.state, 'halted')
  await page.getByRole('region', { name: 'History' }).getByText('halted rollout').waitFor()
  later.child.kill('SIGSTOP')
  await release(id)
  await page.getByText('On 1 of 2 nodes', { exact: true }).waitFor()
  later.child.kill('SIGCONT')
  // Followed to its end without being loaded again.
  await page.getByText('In force everywhere', { exact: true }).waitFor()
  assert.deepEqual(page.faults, [])
})

test('what another person decided meanwhile is neither overlooked nor overwritten', async () => {
  const id = await change()
  const page = await pageOf(admin.token, `/rollouts/${id}`)
  const dialog = page.getByRole('dialog')
  await press(page, 'Release now…')
  await dialog.getByLabel('Reason').fill('it is urgent')
  await decide(id, 'halt', 'it refuses customers')
  await dialog.getByText('it is halted now, with the reason “it refuses customers”').waitFor()
  assert.ok(await dialog.getByRole('button', { name: 'Release to all nodes' }).isDisabled())
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await press(page, 'Discard changes')
  await decide(id, 'resume', 'it was another')

  // Without news of it, the request itself is refused.
  await page.getByRole('button', { name: 'Release now…' }).waitFor()
  await page.route('**/rollouts/ro_*', (asked) =>
    asked.request().method() === 'GET' ? asked.abort() : asked.continue(),
  )
  await press(page, 'Release now…')
  await dialog.getByLabel('Reason').fill('it is urgent')
  await decide(id, 'halt', 'again')
  await dialog.getByRole('button', { name: 'Release to all nodes' }).click()
  await dialog.getByText('The resource has changed since you read it').waitFor()
  assert.equal((await admin('GET', `/rollouts/${id}`)).body.state, 'halted')
  await release(id)
  assert.deepEqual(page.faults, [])
})

test('a halted change is on every page that it concerns, and no page says otherwise', async () => {
  const { body: edge } = await admin('GET', shop.edge.uri)
  await admin('PATCH', shop.edge.uri, { hostports: [...edge.hostports, 'shop2.example:443'] })
  const id = await first()
  await decide(id, 'halt')
  // Waits in it.
  await change()
  const evidence = {
    ...{ signal: 'addresses', node: 'edge-canary', target: shop.route.id, addresses: ['192.0.2.131', '192.0.2.132'] },
    reason: `edge-canary refuses 14 of 20 addresses that ${shop.route.id} let in lately`,
  }
  await run(
    db,
    sql`update rollouts set reason = ${evidence.reason}, evidence = ${JSON.stringify([evidence])}::json where reached < 0`,
  )
  const page = await pageOf(admin.token)
  const link = { name: /rollout$/ }
  await page.getByRole('list', { name: 'Needs attention' }).getByText('A change was halted in cell default').waitFor()
  await page.getByRole('navigation', { name: 'Pages' }).getByText('1 rollout is halted').waitFor({ state: 'attached' })
  await page.locator('.live-nodes').getByText('A change was halted').waitFor()
  assert.equal(await page.getByText('Live on 2 of 2 nodes').count(), 0)
  assert.equal(await page.getByText('Nothing needs your attention').count(), 0)
  await shot(page, 'overview')
  await inspect(page, 'an overview with a halted rollout', seen)

  await goTo(page, '/edges')
  await page
    .getByRole('row')
    .filter({ hasText: 'shop.example' })
    .getByRole('link', { name: 'A change was halted' })
    .waitFor()
  await inspect(page, 'edges with a halted rollout', seen)
  for (const path of [`/edges/${shop.edge.id}`, '/nodes', '/nodes/edge-canary']) {
    await goTo(page, path)
    await page.getByRole('main').getByRole('link', link).first().waitFor()
    await shot(page, path.split('/').slice(1, 2).join('') + (path.includes('canary') ? '-one' : ''))
    await inspect(page, path, seen)
  }
  await goTo(page, '/rollouts')
  await shot(page, 'list')
  await inspect(page, 'the list of rollouts', seen)
  await goToAll(page, `/rollouts/${id}`)
  const signals = page.getByRole('region', { name: 'Signals' })
  await signals.getByText('edge-canary refuses 14 of 20 addresses that shop.example:443/ let in lately').waitFor()
  await signals.getByText('Halted it', { exact: true }).waitFor()
  await page.getByRole('table', { name: 'Addresses' }).getByText('192.0.2.132', { exact: true }).waitFor()
  await shot(page, 'halted')
  await inspect(page, 'a halted rollout', seen)
  for (const width of [720, 320]) {
    await page.setViewportSize({ width, height: 844 })
    await shot(page, `halted-${width}`)
    const wide = await page.evaluate<number>('document.documentElement.scrollWidth')
    assert.ok(wide <= width, `${wide} px at ${width}`)
  }
  await page.setViewportSize(usualSize)
  assert.deepEqual(page.faults, [])
})

test('a viewer learns that they cannot act, and a member neither releases nor sees addresses of clients', async () => {
  const path = `/rollouts/${await first()}`
  for (const [role, sentence, buttons] of [
    ['viewer', 'You are a viewer', []],
    ['member', 'Only admins can release it', ['Resume…', 'Revert changes…']],
  ] as const) {
    const page = await pageOf((await newUser(fleet, admin, role)).token, path)
    await page.getByText(sentence).waitFor()
    await page.getByText('Only admins see the addresses').waitFor()
    await page.getByRole('region', { name: 'Waves and nodes' }).getByText('edge-later').waitFor()
    assert.deepEqual(await page.locator('.page-head .actions button').allTextContents(), buttons)
    assert.equal(await page.getByText('192.0.2.131').count(), 0)
    await inspect(page, `for a ${role}`, seen)
    assert.deepEqual(page.faults, [])
  }
})

test('a halted rollout is reverted and resumed with the keyboard alone', async () => {
  const page = await pageOf(admin.token, `/rollouts/${await first()}`)
  const { use, type } = keyboardOf(page)
  await use('Revert changes…')
  await page.getByRole('dialog').locator('.skeleton').waitFor({ state: 'detached' })
  await shot(page, 'revert')
  await page.getByRole('list', { name: 'Differences' }).getByText('shop2.example:443').first().waitFor()
  await inspect(page, 'revert a rollout', seen, '.modal')
  await use('Revert change')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await use('Resume…')
  await type('Reason', 'reverted')
  await watchFor(1)
  await page.keyboard.press('Enter')
  await page.getByText('In force everywhere', { exact: true }).waitFor()
  await watchFor(3_600)
  const { body } = await admin('GET', shop.edge.uri)
  assert.deepEqual(body.hostports, ['shop.example:443'])
  assert.equal(body.status.rollout, undefined)
  assert.deepEqual(page.faults, [])
})

test('a node that is not heard of is unknown, and not fine', async () => {
  const id = await change()
  const page = await pageOf(admin.token, `/rollouts/${id}`)
  const board = page.getByRole('region', { name: 'Waves and nodes' })
  await board.getByText('has the changes', { exact: true }).waitFor()
  canary.child.kill('SIGSTOP')
  try {
    await board.getByText('not heard of; what it has is not known').waitFor({ timeout: 60_000 })
    await decide(id, 'halt')
    await page.getByText('It is not known yet what edge-canary has.').waitFor()
    await board.getByText('Being taken back').waitFor()
    await shot(page, 'unknown')
    await inspect(page, 'a node that is not heard of', seen)
  } finally {
    canary.child.kill('SIGCONT')
  }
  await page.getByText('All 2 nodes have what was there before the changes.').waitFor({ timeout: 30_000 })
  await release(id)
})

test('axe finds nothing serious', () => assert.deepEqual(seen, { light: [], dark: [] }))
