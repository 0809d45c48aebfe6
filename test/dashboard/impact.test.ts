import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { writeOutcomes } from '../../src/access/evidence/address_outcomes.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { make, newTcpEdge } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { openBrowser, openPage, press, signIn, startDashboard } from './browser.ts'

const { db, origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })
const admin = await newAccount()
const page = await openPage(browser)
await signIn(page, origin, admin.token)

const policy = await policyWith(admin, 'allow 127.0.0.0/8', 'allow 192.0.2.0/24')
const module = { ip_restriction: { ip_policy_ids: [policy] } }
const edge = await newTcpEdge(admin, { ...module, description: 'Orders' })
const https = await make(admin, '/edges/https', { description: 'Shop', hostports: ['shop.example:443'] })
const route = await make(admin, `/edges/https/${https.id}/routes`, {
  match_type: 'path_prefix',
  match: '/reports/',
  ...module,
})
const letIn = (id: string) =>
  writeOutcomes(db, [
    { targetId: toUuid(id as `edgtcp_${string}`), ip: '192.0.2.7', outcome: 'allowed', at: Date.now() },
  ])
const bar = page.getByRole('region', { name: 'Unsaved changes' })
const impact = page.getByRole('region', { name: 'Impact' })

async function reviewRemoval(): Promise<void> {
  await page.goto(`${origin}/dashboard/policies/${policy}`)
  await press(page, 'Actions for allow 192.0.2.0/24 > Remove rule')
  await bar.getByText('You keep access').waitFor()
  await press(page, 'Review and save')
}

test('where it is unknown which addresses were let in, a review says so and shows no tick', async () => {
  await reviewRemoval()
  await impact.getByText('Unknown which addresses would be refused').waitFor()
  assert.equal(await impact.getByText('No change').count(), 0)
  await bar.getByText('Not all addresses that edges let in are known').waitFor()
  assert.deepEqual(page.faults, [])
})

test('a review names the edges and routes where an address would be refused, and the bar counts it once', async () => {
  await letIn(route.id)
  await reviewRemoval()
  await impact.getByText('1 would be refused').waitFor()
  await impact.getByText('at Shop /reports/').waitFor()
  await impact.getByText('Unknown for 1 edge or route').waitFor()
  await letIn(edge.id)
  await reviewRemoval()
  await impact.getByText('1 would be refused').waitFor()
  await impact.getByText('at Orders').waitFor()
  assert.equal(await impact.getByText('Unknown').count(), 0)
  await bar.getByText('1 address newly refused').waitFor()
  assert.deepEqual(page.faults, [])
})
