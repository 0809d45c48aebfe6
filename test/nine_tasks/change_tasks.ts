// Tasks of a new user around one change: who would be refused by it, trying it first, and taking it back. With a real edge node, which is asked
// after each step whether what the page says is so.
import assert from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { get, startHttpUpstream } from '../agent/http_harness.ts'
import { startDashboardWithEdges } from '../dashboard/browser.ts'
import type { Client } from '../harness/client.ts'
import type { Scope } from '../harness/control_plane.ts'
import type { EdgeProcess, Installation } from '../harness/edge.ts'
import { make } from '../harness/fixtures.ts'
import { putRules } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import type { Hand } from './hand.ts'

type World = Installation & { origin: string; edge: EdgeProcess; modulePath: string; policy: string; colleague: Client }
/** `before`: how many clicks it took in the review, if it could be done. */
type Task = {
  number: string
  title: string
  before: string
  most: number
  run: (hand: Hand, page: Page, world: World) => Promise<void>
}

const host = 'app.example'
const [office, visitor] = ['127.0.0.2', '127.0.0.5']
const place = `${host}:443/reports/`
const statusFor = async ({ edge }: Pick<World, 'edge'>, from: string) =>
  (await get(edge, { host, path: '/reports/', from })).status
const until = (world: World, from: string, wanted: number) =>
  poll(
    () => statusFor(world, from),
    (status) => status === wanted,
  )

export async function startWorld(scope: Scope): Promise<World> {
  const installation = await startDashboardWithEdges(scope)
  const { admin } = installation
  const edge = await installation.startEdge()
  const upstream = await startHttpUpstream(scope)
  const backend = await make(admin, '/backends/static', {
    address: `127.0.0.1:${upstream.port}`,
    description: 'reports',
  })
  const { id } = await make(admin, '/edges/https', { hostports: [`${host}:443`] })
  const route = await make(admin, `/edges/https/${id}/routes?wait=applied`, {
    match_type: 'path_prefix',
    match: '/reports/',
    backend: { backend_id: backend.id },
  })
  const { id: policy } = await make(admin, '/ip_policies', { description: 'Offices' })
  await putRules(admin, policy, [`allow ${office} # Bonn`])
  for (const from of [office, visitor, '127.0.0.6']) assert.equal(await statusFor({ edge }, from), 200)
  const modulePath = `/edges/https/${id}/routes/${route.id}/ip_restriction`
  // The node reports the addresses that it has let in.
  await poll(
    async () =>
      (await admin('PUT', `${modulePath}?dry_run=true`, { ip_policy_ids: [policy] })).body.impact.newly_refused,
    (refused) => refused === 2,
  )
  const colleague = await newUser(installation, admin, 'admin')
  return { ...installation, edge, modulePath, policy, colleague }
}

const impact = (page: Page) => page.getByRole('region', { name: 'Impact' })
const dialog = (page: Page) => page.getByRole('dialog')
const closed = (page: Page) => dialog(page).waitFor({ state: 'detached' })

async function openAddresses({ go, follow, press }: Hand): Promise<void> {
  await go('Edges')
  await follow(`${host}:443`)
  await press(`Change allowed addresses of ${place}`)
}

export const tasks: Task[] = [
  {
    number: '2a',
    title: 'see who a restriction of one route would refuse, and only warn of them',
    before: '6, without a preview',
    most: 7,
    async run(hand, page, world) {
      await openAddresses(hand)
      await hand.check('Offices')
      await impact(page).getByText('2 would be refused').waitFor()
      await impact(page).getByText(visitor).waitFor()
      await hand.choose('All other addresses', 'Warn only: let them in, and note it')
      await impact(page).getByText('2 would be warned of').waitFor()
      await hand.press('Save')
      await closed(page)
      await page.getByText('Warns only', { exact: true }).waitFor()
      assert.deepEqual([await statusFor(world, office), await statusFor(world, visitor)], [200, 200])
    },
  },
  {
    number: '2b',
    title: 'enforce it after having seen which addresses it warned of',
    before: 'not possible',
    most: 6,
    async run(hand, page, world) {
      await openAddresses(hand)
      await hand.choose('All other addresses', 'Refuse them')
      await impact(page).getByText('2 would be refused').waitFor()
      await hand.press('Save')
      await closed(page)
      await until(world, visitor, 403)
      assert.equal(await statusFor(world, office), 200)
    },
  },
  {
    number: '7a',
    title: 'take back at once what one has just done',
    before: 'not possible',
    most: 1,
    async run(hand, page, world) {
      // It is the change before that one has to do with: it was a mistake.
      await openAddresses(hand)
      await hand.choose('All other addresses', 'Warn only: let them in, and note it')
      await hand.press('Save')
      await closed(page)
      await until(world, visitor, 200)
      hand.spent.clicks = 0
      await hand.press('Undo')
      await until(world, visitor, 403)
      await page.getByText('Warns only', { exact: true }).waitFor({ state: 'detached' })
    },
  },
  {
    number: '7b',
    title: 'find the change of a colleague that shuts out a visitor, and take it back',
    before: 'not possible',
    most: 3,
    async run({ go, press, click }, page, world) {
      const { admin, colleague, modulePath, policy } = world
      await admin('DELETE', modulePath)
      await until(world, visitor, 200)
      await colleague('PUT', modulePath, { ip_policy_ids: [policy] })
      await until(world, visitor, 403)
      await go('Newly refused')
      await page.getByText(visitor).first().waitFor()
      await click(
        page.getByRole('row').filter({ hasText: visitor }).getByRole('button', { name: 'Revert…' }),
        'Revert…',
      )
      await impact(page).getByText('would be').first().waitFor()
      await press('Revert change')
      await closed(page)
      await until(world, visitor, 200)
    },
  },
  {
    number: '7c',
    title: 'make a change for ten minutes, and keep it',
    before: 'not possible',
    most: 10,
    async run(hand, page, world) {
      await openAddresses(hand)
      await hand.check('Offices')
      await hand.press('Add to draft')
      await closed(page)
      await hand.follow('Review draft')
      await impact(page).getByText('2 would be refused').waitFor()
      await hand.choose('Apply', 'For 10 minutes, unless confirmed')
      await hand.press('Apply')
      await until(world, visitor, 403)
      await hand.press('Confirm')
      await page.getByRole('region', { name: 'Change set to confirm' }).waitFor({ state: 'detached' })
      assert.equal(await statusFor(world, visitor), 403)
    },
  },
]
