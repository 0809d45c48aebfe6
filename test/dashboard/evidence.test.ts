// Which rules of a policy matter: their hits, which of them never decide, and removing those after a review.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addRuleHits, dayOf } from '../../src/access/evidence/rule_hits.ts'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { policyWith } from '../harness/ip.ts'
import { newUser } from '../harness/principals.ts'
import { openBrowser, openPage, press, signIn, startDashboard } from './browser.ts'

const plane = await startDashboard({ after })
const { origin, newAccount, db } = plane
const browser = await openBrowser({ after })
const admin = await newAccount()
const rules = [
  'allow 10.0.0.0/8 # used',
  'allow 10.1.0.0/16 # inside',
  'allow 192.0.2.7 # shut',
  'deny 192.0.2.0/24 # closed',
  'allow 198.51.100.0/24 # old',
]

/** One that decided 1,234 times, and all of them counted for 40 days. */
async function countedPolicy(): Promise<string> {
  const policy = await policyWith(admin, ...rules)
  const { body } = await admin('GET', `/ip_policies/${policy}/rules`)
  const idOf = (cidr: string) => toUuid(body.rules.find((rule: { cidr: string }) => rule.cidr === cidr).id as Id<'ipr'>)
  await run(db, sql`update ip_rule_counting set began_at = now() - interval '40 days'`)
  await run(
    db,
    sql`update ip_policy_rules set created_at = now() - interval '40 days'
        where ip_policy_id = ${toUuid(policy as Id<'ipp'>)}`,
  )
  const hits = { accountId: toUuid(admin.accountId as Id<'ac'>), day: dayOf(Date.now()), lastAt: Date.now(), warned: 0 }
  await addRuleHits(db, [
    { ...hits, ruleId: idOf('10.0.0.0/8'), allowed: 1_234, refused: 0 },
    { ...hits, ruleId: idOf('192.0.2.0/24'), allowed: 0, refused: 12 },
  ])
  return policy
}

test('rules show their hits and what covers them, and what never decides is removed after a review', async () => {
  const policy = await countedPolicy()
  const page = await openPage(browser, { viewport: { width: 1440, height: 900 } })
  await signIn(page, origin, admin.token, `/policies/${policy}`)
  const row = (text: string) => page.getByRole('row').filter({ hasText: text })
  await row('used').getByText('1,234').waitFor()
  await row('inside').getByText('Covered by allow 10.0.0.0/8').waitFor()
  await row('shut').getByText('Shadowed by deny 192.0.2.0/24').waitFor()
  await row('old')
    .getByText(/^Unused since \d{4}-\d\d-\d\d$/)
    .waitFor()
  await row('old').getByText('Never').waitFor()
  await page.getByRole('button', { name: 'Hits, 30 days' }).click()
  await page.getByRole('button', { name: 'Hits, 30 days' }).click()
  // The busiest first.
  await page.getByRole('row').nth(1).filter({ hasText: '10.0.0.0/8' }).waitFor()

  await page.getByRole('button', { name: 'Unused 30 days 3' }).waitFor()
  await page.getByRole('button', { name: 'Never decides 2' }).click()
  await page.getByText('Without them, nothing changes.').waitFor()
  await row('old').waitFor({ state: 'detached' })
  await press(page, 'Remove these 2 rules')
  await page.getByText('0 to add, 2 to remove. Not saved yet.').waitFor()
  await press(page, 'Review and save')
  const review = page.getByRole('dialog')
  await review.getByText('2 removed').waitFor()
  await review.getByRole('button', { name: 'Save rules' }).click()
  await review.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Never decides 0' }).waitFor()
  const { body } = await admin('GET', `/audit_events?resource_id=${policy}&limit=1`)
  assert.deepEqual(
    [body.audit_events[0].operation, body.audit_events[0].after.removed],
    ['ip_policies.remove_rules', 2],
  )
  const left = await admin('GET', `/ip_policies/${policy}/rules`)
  assert.deepEqual(left.body.rules.map(({ cidr }: { cidr: string }) => cidr).sort(), [
    '10.0.0.0/8',
    '192.0.2.0/24',
    '198.51.100.0/24',
  ])
  assert.deepEqual(page.faults, [])
})

test('a rule that another person has added meanwhile stays, and a viewer is offered no removal', async () => {
  const policy = await countedPolicy()
  const page = await openPage(browser, { viewport: { width: 1440, height: 900 } })
  await signIn(page, origin, (await newUser(plane, admin, 'viewer')).token, `/policies/${policy}`)
  await page.getByRole('button', { name: 'Never decides 2' }).click()
  await page.getByText('Without them, nothing changes.').waitFor()
  assert.equal(await page.getByRole('button', { name: /^Remove these/ }).count(), 0)

  const other = await openPage(browser, { viewport: { width: 1440, height: 900 } })
  await signIn(other, origin, admin.token, `/policies/${policy}`)
  await other.getByRole('button', { name: 'Unused 30 days 3' }).click()
  await press(other, 'Remove these 3 rules')
  await press(other, 'Review and save')
  const added = await admin('POST', '/ip_policy_rules', {
    ip_policy_id: policy,
    cidr: '203.0.113.0/24',
    action: 'allow',
  })
  assert.equal(added.status, 201, added.text)
  await other.getByRole('dialog').getByRole('button', { name: 'Save rules' }).click()
  await other.getByRole('dialog').waitFor({ state: 'detached' })
  const left = await admin('GET', `/ip_policies/${policy}/rules`)
  assert.deepEqual(left.body.rules.map(({ cidr }: { cidr: string }) => cidr).sort(), [
    '10.0.0.0/8',
    '192.0.2.0/24',
    '203.0.113.0/24',
  ])
})
