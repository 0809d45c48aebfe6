import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Client } from '../../../test/harness/client.ts'
import { startControlPlane } from '../../../test/harness/control_plane.ts'
import { behindProxy, from, policyWith, restrict } from '../../../test/harness/ip.ts'
import { poll } from '../../../test/harness/poll.ts'
import { newUser } from '../../../test/harness/principals.ts'
import {
  addReportedRuleHits,
  addRuleHits,
  dayMs,
  dayOf,
  daysKept,
  deleteOldRuleHits,
  type RuleHits,
} from '../../access/evidence/rule_hits.ts'
import { many, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { type Id, newUuid, toUuid } from '../../kernel/ids.ts'
import type { RuleEvidence } from './schema.ts'

const plane = await startControlPlane({ after }, { env: behindProxy })

const evidenceOf = async (as: Client, policy: string, query = '') => {
  const { status, body, text } = await as('GET', `/ip_policies/${policy}/rule_evidence${query}`)
  assert.equal(status, 200, text)
  return body as { rule_evidence: RuleEvidence[]; next_page_uri: string | null; nodes_not_counting: number }
}
const byRange = ({ rule_evidence }: { rule_evidence: RuleEvidence[] }) =>
  Object.fromEntries(rule_evidence.map((rule) => [rule.cidr, rule]))
const hitsOf = (admin: { accountId: string }, rule: { id: string }, fields: Partial<RuleHits> = {}): RuleHits => ({
  accountId: toUuid(admin.accountId as Id<'ac'>),
  ruleId: toUuid(rule.id as Id<'ipr'>),
  day: dayOf(Date.now()),
  lastAt: Date.now(),
  allowed: 0,
  refused: 0,
  warned: 0,
  ...fields,
})

test('each call of the API counts for the rule that decides about it, under every restriction', async () => {
  const admin = await plane.newAccount()
  const enforced = await policyWith(
    admin,
    'allow 127.0.0.0/8',
    'allow 10.0.0.0/8',
    'deny 10.1.0.0/16',
    'allow 11.0.0.0/8',
  )
  const watched = await policyWith(admin, 'allow 127.0.0.0/8', 'deny 10.2.0.0/16', 'allow 10.0.0.0/8')
  await restrict(admin, { type: 'api', enforced: true, ip_policy_ids: [enforced] })
  await restrict(admin, { type: 'api', ip_policy_ids: [watched] })
  const began = Date.now()
  for (const [address, times] of [
    ['10.3.0.1', 5],
    ['10.1.0.1', 3],
    ['10.2.0.1', 2],
    ['192.0.2.1', 4],
  ] as const)
    for (let turn = 0; turn < times; turn++) await admin('GET', '/caller', undefined, from(address))

  const ofEnforced = await poll(
    async () => byRange(await evidenceOf(admin, enforced)),
    (found) => found['10.0.0.0/8']?.hits === 7 && found['10.1.0.0/16']?.hits === 3,
  )
  const ofWatched = byRange(await evidenceOf(admin, watched))
  assert.equal(ofWatched['10.2.0.0/16']?.hits, 2)
  assert.equal(ofWatched['10.0.0.0/8']?.hits, 8, 'also for what another restriction refuses')
  const used = ofEnforced['10.0.0.0/8']
  assert.deepEqual([used?.hits_7d, used?.hits_30d], [7, 7])
  assert.ok(Date.parse(used?.last_hit_at ?? '') >= began - 1_000)
  const unused = ofEnforced['11.0.0.0/8']
  assert.deepEqual([unused?.hits, unused?.last_hit_at], [0, null])
  assert.ok(Date.parse(unused?.counted_since ?? '') <= Date.now())
  const outcomes = await many<{ allowed: number; refused: number; warned: number }>(
    plane.db,
    sql`
    select h.allowed, h.refused, h.warned from ip_rule_hits h join ip_policy_rules r on r.id = h.ip_policy_rule_id
    where r.cidr <> '127.0.0.0/8' and r.account_id = ${toUuid(admin.accountId as Id<'ac'>)}
    order by r.cidr, r.ip_policy_id`,
  )
  assert.deepEqual(
    outcomes.map(({ allowed, refused, warned }) => [allowed, refused, warned]),
    [
      [7, 0, 0],
      [8, 0, 0],
      [0, 3, 0],
      [0, 0, 2],
    ],
  )
})

test('rules are listed with what covers them, and by what covers them', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(
    admin,
    'allow 10.1.0.0/16',
    'deny 10.0.0.0/8',
    'deny 10.2.0.0/16',
    'allow 2001:db8::/32',
    'allow 2001:db8::/33',
    'allow 2001:db8:8000::/33',
    'allow 192.0.2.0/24',
  )
  const all = byRange(await evidenceOf(admin, policy))
  const idOf = (cidr: string) => all[cidr]?.id
  assert.deepEqual(
    Object.fromEntries(Object.entries(all).map(([cidr, { covered, covered_by }]) => [cidr, [covered, ...covered_by]])),
    {
      '10.1.0.0/16': ['shadowed', idOf('10.0.0.0/8')],
      '10.0.0.0/8': [null],
      '10.2.0.0/16': ['redundant', idOf('10.0.0.0/8')],
      '2001:db8::/32': ['subdivided', idOf('2001:db8::/33'), idOf('2001:db8:8000::/33')],
      '2001:db8::/33': ['redundant', idOf('2001:db8::/32')],
      '2001:db8:8000::/33': ['redundant', idOf('2001:db8::/32')],
      '192.0.2.0/24': [null],
    },
  )
  const redundant = await evidenceOf(admin, policy, '?covered=redundant&limit=2')
  assert.equal(redundant.rule_evidence.length, 2)
  assert.match(redundant.next_page_uri ?? '', /covered=redundant/)
  const rest = await evidenceOf(admin, policy, new URL(redundant.next_page_uri ?? '').search)
  assert.deepEqual(
    [...redundant.rule_evidence, ...rest.rule_evidence].map(({ cidr }) => cidr).sort(),
    ['10.2.0.0/16', '2001:db8:8000::/33', '2001:db8::/33'].sort(),
  )

  // A change holds at once, and a rule that has expired covers nothing.
  const { body: deny } = await admin('GET', `/ip_policy_rules/${idOf('10.0.0.0/8')}`)
  const expired = { expires_at: new Date(Date.now() + 300).toISOString() }
  assert.equal((await admin('PATCH', deny.uri, expired)).status, 200)
  await poll(
    async () => byRange(await evidenceOf(admin, policy))['10.1.0.0/16']?.covered,
    (covered) => covered === null,
  )
})

test('rules unused since a moment are those that were counted since then and have no hit', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8', 'allow 11.0.0.0/8', 'allow 12.0.0.0/8')
  const all = byRange(await evidenceOf(admin, policy))
  const [ten, eleven] = [all['10.0.0.0/8'], all['11.0.0.0/8']]
  assert.ok(ten && eleven)
  const account = toUuid(admin.accountId as Id<'ac'>)
  // As if two of the rules, and counting, were sixty days old.
  const old = new Date(Date.now() - 60 * dayMs).toISOString()
  await run(plane.db, sql`update ip_rule_counting set began_at = ${old}`)
  await run(
    plane.db,
    sql`update ip_policy_rules set created_at = ${old} where account_id = ${account} and cidr <> '12.0.0.0/8'`,
  )
  const longAgo = Date.now() - 40 * dayMs
  await addRuleHits(plane.db, [
    hitsOf(admin, ten, { allowed: 3 }),
    hitsOf(admin, ten, { allowed: 4, day: dayOf(Date.now() - 10 * dayMs), lastAt: Date.now() - 10 * dayMs }),
    hitsOf(admin, eleven, { allowed: 5, day: dayOf(longAgo), lastAt: longAgo }),
  ])
  const since = (days: number) => `?unused_since=${new Date(Date.now() - days * dayMs).toISOString()}`
  const unused = async (days: number) => Object.keys(byRange(await evidenceOf(admin, policy, since(days))))
  assert.deepEqual(await unused(30), ['11.0.0.0/8'], 'neither the used one nor the new one')
  assert.deepEqual(await unused(50), [])
  const found = byRange(await evidenceOf(admin, policy))
  assert.deepEqual([found['10.0.0.0/8']?.hits, found['10.0.0.0/8']?.hits_7d, found['10.0.0.0/8']?.hits_30d], [7, 3, 7])
  assert.deepEqual([found['11.0.0.0/8']?.hits, found['11.0.0.0/8']?.hits_30d], [5, 0])
  assert.equal((await admin('GET', `/ip_policies/${policy}/rule_evidence?unused_since=yesterday`)).status, 400)
})

test('what a node sends twice is added once, even when it restarts in between', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'deny 10.0.0.0/8')
  const [rule] = (await evidenceOf(admin, policy)).rule_evidence
  assert.ok(rule)
  const [node, sender] = ['edge-1', newUuid()]
  const send = (batch: number, refused: number, by = sender) =>
    addReportedRuleHits(plane.db, { node, sender: by, batch, hits: [hitsOf(admin, rule, { refused })] }, Date.now())
  assert.equal(await send(1, 10), true)
  assert.equal(await send(1, 10), false)
  assert.equal(await send(2, 5), true)
  assert.equal(await send(1, 10), false)
  assert.equal(await send(1, 7, newUuid()), true)
  const twice = await Promise.all([send(3, 100), send(3, 100), send(3, 100)])
  assert.deepEqual(twice.sort(), [false, false, true])
  assert.equal((await evidenceOf(admin, policy)).rule_evidence[0]?.hits, 122)
  for (let turn = 0; turn < 30; turn++) await send(1, 0, newUuid())
  const kept = await many(plane.db, sql`select from ip_rule_hit_batches where node = ${node}`)
  assert.ok(kept.length <= 11, `${kept.length} senders of one node are kept`)
})

test('counts of unknown rules and of the rules of others are not taken, and those of deleted rules go', async () => {
  const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
  const policy = await policyWith(admin, 'allow 10.0.0.0/8', 'allow 11.0.0.0/8')
  const { '10.0.0.0/8': kept, '11.0.0.0/8': gone } = byRange(await evidenceOf(admin, policy))
  assert.ok(kept && gone)
  await addRuleHits(plane.db, [
    hitsOf(other, kept, { allowed: 1_000 }),
    hitsOf(admin, { id: 'ipr_01h455vb4pex5vsknk084sn02q' }, { allowed: 1_000 }),
    hitsOf(admin, kept, { allowed: 1 }),
    hitsOf(admin, gone, { allowed: 2 }),
    hitsOf(admin, kept, { allowed: 4, day: dayOf(Date.now()) - (daysKept + 1) * dayMs, lastAt: 0 }),
  ])
  assert.equal((await admin('DELETE', `/ip_policy_rules/${gone.id}`)).status, 204)
  await deleteOldRuleHits(plane.db, Date.now())
  const ids = [kept, gone].map(({ id }) => toUuid(id))
  const totals = await many<{ allowed: number }>(
    plane.db,
    sql`select allowed from ip_rule_hits where ip_policy_rule_id = any(${ids}::uuid[])`,
  )
  assert.deepEqual(totals, [{ allowed: 5 }])
  const days = await many<{ hits: number }>(
    plane.db,
    sql`select hits from ip_rule_hit_days where ip_policy_rule_id = any(${ids}::uuid[])`,
  )
  assert.deepEqual(days, [{ hits: 1 }])
})

test('several rules are removed in one change, and only those of the policy', async () => {
  const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
  const policy = await policyWith(admin, 'allow 10.0.0.0/8', 'allow 10.1.0.0/16', 'allow 10.2.0.0/16')
  const [mine, theirs] = [await policyWith(admin, 'allow 10.0.0.0/8'), await policyWith(other, 'allow 10.0.0.0/8')]
  const idsOf = async (as: Client, id: string) => (await evidenceOf(as, id)).rule_evidence.map((rule) => rule.id)
  const redundant = (await evidenceOf(admin, policy, '?covered=redundant')).rule_evidence.map(({ id }) => id)
  const rule_ids = [...redundant, ...(await idsOf(admin, mine)), ...(await idsOf(other, theirs))]
  const remove = (as: Client, body: object = { rule_ids }) => as('POST', `/ip_policies/${policy}/remove_rules`, body)
  assert.equal((await remove(other)).status, 404)
  const viewer = await newUser(plane, admin, 'viewer')
  assert.equal((await remove(viewer)).status, 403)
  assert.equal((await evidenceOf(viewer, policy)).rule_evidence.length, 3)
  const removed = await remove(admin)
  assert.equal(removed.status, 200, removed.text)
  assert.deepEqual([removed.body.rules, removed.body.removed], [1, 2])
  assert.equal((await remove(admin)).body.removed, 0)
  for (const [as, id] of [
    [admin, policy],
    [admin, mine],
    [other, theirs],
  ] as const)
    assert.equal((await idsOf(as, id)).length, 1)
  assert.equal((await remove(admin, { rule_ids: [] })).status, 400)

  // As for every other change of what decides: admins cannot lock themselves out, and only they change what is attached.
  const own = await policyWith(admin, 'allow 127.0.0.0/8')
  await restrict(admin, { type: 'api', enforced: true, ip_policy_ids: [own] })
  const body = { rule_ids: await idsOf(admin, own) }
  const refused = await admin('POST', `/ip_policies/${own}/remove_rules`, body)
  assert.equal(refused.body.error_code, 'ERR_SELF_LOCKOUT')
  const member = await newUser(plane, admin)
  assert.equal((await member('POST', `/ip_policies/${own}/remove_rules`, body)).status, 403)
  const { body: audit } = await admin('GET', '/audit_events?limit=100')
  const events = audit.audit_events.filter((event: { operation?: string; action?: string; type?: string }) =>
    JSON.stringify(event).includes('ip_policies.remove_rules'),
  )
  assert.equal(events.length, 1)
})
