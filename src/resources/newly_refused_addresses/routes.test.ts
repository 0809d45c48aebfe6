import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer, Client } from '../../../test/harness/client.ts'
import { startControlPlane } from '../../../test/harness/control_plane.ts'
import { newRoute, newTcpEdge } from '../../../test/harness/fixtures.ts'
import { behindProxy, from, policyWith, putRules, restrict } from '../../../test/harness/ip.ts'
import { poll } from '../../../test/harness/poll.ts'
import { newUser } from '../../../test/harness/principals.ts'
import {
  countRefusedAfterAllowed,
  listRefusedAfterAllowed,
  writeOutcomes,
} from '../../access/evidence/address_outcomes.ts'
import { createOutcomeBuffer } from '../../access/evidence/outcome_buffer.ts'
import { type Db, one, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { type Id, newUuid, toUuid } from '../../kernel/ids.ts'

const plane = await startControlPlane({ after }, { env: behindProxy })
const dayMs = 24 * 60 * 60 * 1_000
const uuidOf = (as: { accountId: string }) => toUuid(as.accountId as Id)

const listOf = async (as: Client) => {
  const answer = await as('GET', '/newly_refused_addresses')
  assert.equal(answer.status, 200, answer.text)
  return answer.body.newly_refused_addresses
}
const call = (as: Client, ip: string): Promise<Answer> => as('GET', '/caller', undefined, from(ip))

/** An account whose API is restricted to what the rules allow, and to this machine. */
async function restricted(...lines: string[]) {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 127.0.0.0/8', ...lines)
  const restriction = await restrict(admin, { type: 'api', enforced: true, ip_policy_ids: [policy] })
  return { admin, policy, restriction }
}

test('an address that a change shut out is listed with the change and its author, and leaves when it is allowed', async () => {
  const { admin, policy, restriction } = await restricted('allow 192.0.2.0/24')
  const [one, other, never] = ['192.0.2.1', '192.0.2.2', '198.51.100.1']
  for (const ip of [one, other]) assert.equal((await call(admin, ip)).status, 200)
  assert.equal((await putRules(admin, policy, ['allow 127.0.0.0/8', 'allow 192.0.2.2'])).status, 200)
  for (const ip of [one, other, never]) await call(admin, ip)
  const [shown, ...more] = await poll(
    () => listOf(admin),
    (list) => list.length > 0,
  )
  assert.deepEqual(more, [], 'neither who is let in nor who never was')
  assert.deepEqual([shown.ip, shown.type, shown.target, shown.edge], [one, 'api', null, null])
  assert.deepEqual(shown.decided_by, {
    by: 'restriction',
    ip_restriction: { id: restriction.id, uri: restriction.uri },
    ip_policy: null,
    ip_policy_rule: null,
    ip_policies: [{ id: policy, uri: shown.decided_by.ip_policies[0].uri }],
  })
  const { body: audit } = await admin('GET', '/audit_events?limit=1')
  const [{ id, operation, operation_id, resource_id, owner_id, api_key_id, created_at }] = audit.audit_events
  assert.equal(operation, 'ip_policies.replace_rules')
  const { audit_event, kind, at } = shown.cause
  assert.deepEqual(audit_event, { id, operation, operation_id, resource_id, owner_id, api_key_id })
  assert.deepEqual([kind, at, owner_id], ['change', created_at, admin.adminId])

  await admin('POST', '/ip_policy_rules', { ip_policy_id: policy, cidr: `${one}/32`, action: 'allow' })
  assert.deepEqual(await listOf(admin), [], 'the decision holds no more, although it has not come back yet')
})

test('a deny rule is named, and the expiry of a rule is a cause of its own', async () => {
  const { admin, policy } = await restricted('allow 192.0.2.0/24')
  const expires_at = new Date(Date.now() + 2_500).toISOString()
  const lines = ['allow 127.0.0.0/8', 'allow 192.0.2.0/24', `allow 203.0.113.1 expires=${expires_at}`]
  await putRules(admin, policy, lines)
  for (const ip of ['192.0.2.1', '203.0.113.1']) assert.equal((await call(admin, ip)).status, 200)
  const denied = await admin('POST', '/ip_policy_rules', { ip_policy_id: policy, cidr: '192.0.2.1', action: 'deny' })
  await call(admin, '192.0.2.1')
  await poll(
    () => call(admin, '203.0.113.1'),
    ({ status }) => status === 403,
  )
  const list = await poll(
    () => listOf(admin),
    (shown) => shown.length === 2,
  )
  const [byTime, byDeny] = list
  assert.equal(byDeny.decided_by.ip_policy_rule.id, denied.body.id)
  assert.equal(byDeny.cause.audit_event.resource_id, denied.body.id)
  assert.deepEqual([byTime.cause.kind, byTime.cause.at], ['expiry', expires_at])
  assert.equal(byTime.cause.ip_policy.id, policy)
  assert.equal(byTime.cause.audit_event, null)
})

test('what a replacement removed is forgotten beyond a bound, and the cause is then said to be unknown', async () => {
  const { admin, policy } = await restricted('allow 192.0.2.0/24')
  await call(admin, '192.0.2.1')
  await putRules(admin, policy, ['allow 127.0.0.0/8'])
  await call(admin, '192.0.2.1')
  const listed = () =>
    poll(
      () => listOf(admin),
      (list) => list.length === 1,
    )
  assert.equal((await listed())[0].cause.kind, 'change')
  // As if it had replaced half a million rules; the next change makes room.
  await run(
    plane.db,
    sql`update rule_set_changes set rules = 500000 where account_id = ${uuidOf(admin)} and part = 'added'`,
  )
  await putRules(admin, await policyWith(admin), ['allow 10.0.0.0/8'])
  const [{ cause }] = await listed()
  assert.deepEqual([cause.kind, cause.at, cause.audit_event], ['unknown', null, null])
  assert.match(cause.reason, /^The rules before ip_policies.replace_rules of ipp_\w+ are not recorded any more\.$/)
})

test('a change set that changed several policies is searched policy by policy, and unknown where it changed one twice', async () => {
  const { admin, policy } = await restricted('allow 192.0.2.0/24')
  const other = await policyWith(admin, 'deny 192.0.2.0/24')
  assert.equal((await call(admin, '192.0.2.1')).status, 200)
  const put = (id: string, cidr: string) => ({
    operation: 'ip_policies.replace_rules',
    parameters: { id },
    body: { rules: [{ action: 'allow', cidr }] },
  })
  const applyAll = async (...changes: object[]) => {
    const { body } = await admin('POST', '/change_sets', { changes })
    assert.equal((await admin('POST', `/change_sets/${body.id}/apply`, {})).status, 200)
  }
  await applyAll(put(policy, '127.0.0.0/8'), put(other, '10.0.0.0/8'))
  await call(admin, '192.0.2.1')
  const listed = () =>
    poll(
      () => listOf(admin),
      (list) => list.length === 1,
    )
  const [{ cause }] = await listed()
  assert.deepEqual([cause.kind, cause.audit_event?.resource_id], ['change', policy])
  await applyAll(put(policy, '127.0.0.0/9'), put(policy, '127.0.0.0/8'))
  const [{ cause: then }] = await listed()
  assert.equal(then.kind, 'unknown', then.reason)
})

test('only the last seven days and the last 24 hours count, even if the table holds more', async () => {
  const { admin } = await restricted()
  const accountId = uuidOf(admin)
  const now = Date.now()
  const write = (ip: string, allowedAgo: number, refusedAgo: number) =>
    writeOutcomes(plane.db, [
      { accountId, type: 'api', ip, outcome: 'allowed', at: now - allowedAgo },
      { accountId, type: 'api', ip, outcome: 'refused', at: now - refusedAgo },
    ])
  await write('192.0.2.1', 7 * dayMs - 60_000, 60_000)
  await write('192.0.2.2', 7 * dayMs + 60_000, 60_000)
  await write('192.0.2.3', 2 * dayMs, dayMs - 60_000)
  await write('192.0.2.4', 2 * dayMs, dayMs + 60_000)
  await write('192.0.2.5', 60_000, 120_000)
  assert.deepEqual(
    (await listOf(admin)).map(({ ip }: { ip: string }) => ip),
    ['192.0.2.1', '192.0.2.3'],
  )
})

test('members and other accounts see nothing of it, and a page begins where the one before ended', async () => {
  const { admin } = await restricted()
  const [member, stranger] = [await newUser(plane, admin), (await restricted()).admin]
  const accountId = uuidOf(admin)
  const ips = Array.from({ length: 7 }, (_, index) => `192.0.2.${index}`)
  for (const outcome of ['allowed', 'refused'] as const)
    await writeOutcomes(
      plane.db,
      ips.map((ip) => ({ accountId, type: 'api', ip, outcome, at: Date.now() - (outcome === 'allowed' ? 1_000 : 0) })),
    )
  assert.equal((await member('GET', '/newly_refused_addresses')).status, 403)
  assert.deepEqual(await listOf(stranger), [])
  const seen: string[] = []
  for (let next: string | null = '/newly_refused_addresses?limit=3'; next; ) {
    const { body }: Answer = await admin('GET', next)
    seen.push(...body.newly_refused_addresses.map(({ ip }: { ip: string }) => ip))
    next = body.next_page_uri
  }
  assert.deepEqual(seen.toSorted(), ips)
  const { body } = await admin('GET', '/newly_refused_addresses?before=now~api~x~y')
  assert.equal(body.error_code, 'ERR_INVALID_FIELD', JSON.stringify(body))
})

test('at an edge, what another account owns is not touched, and a deleted route is not listed', async () => {
  const admin = await plane.newAccount()
  const [edge, route] = [await newTcpEdge(admin), await newRoute(admin)]
  const [office, empty] = [await policyWith(admin, 'allow 192.0.2.0/24'), await policyWith(admin)]
  const targets = [edge, route].map(({ id }) => toUuid(id))
  const pass = (outcome: 'allowed' | 'refused') =>
    writeOutcomes(
      plane.db,
      [...targets, newUuid()].map((targetId) => ({ targetId, ip: '192.0.2.1', outcome, at: Date.now() })),
    )
  await pass('allowed')
  for (const { uri } of [edge, route]) await admin('PUT', `${uri}/ip_restriction`, { ip_policy_ids: [office] })
  for (const { uri } of [edge, route]) await admin('PUT', `${uri}/ip_restriction`, { ip_policy_ids: [empty] })
  await pass('refused')
  const list = await listOf(admin)
  assert.deepEqual(list.map(({ target }: { target: { id: string } }) => target.id).sort(), [edge.id, route.id].sort())
  for (const { decided_by, cause, target } of list) {
    assert.deepEqual([decided_by.by, decided_by.ip_restriction], ['module', null])
    assert.deepEqual([cause.kind, cause.audit_event.resource_id], ['change', target.id])
    assert.match(cause.audit_event.operation, /\.ip_restriction\.replace$/)
  }
  await admin('DELETE', route.uri)
  assert.equal((await listOf(admin)).length, 1)
})

test('at each edge and route its own module decides, and only while it is enabled', async () => {
  const admin = await plane.newAccount()
  const narrow = await policyWith(admin, 'allow 192.0.2.1')
  const wide = await policyWith(admin, 'allow 192.0.2.0/24')
  const modules = [
    { enabled: true, ip_policy_ids: [wide] },
    { enabled: true, ip_policy_ids: [narrow] },
    { enabled: false, ip_policy_ids: [narrow] },
    undefined,
  ]
  const targets: { id: Id; uri: string }[] = []
  for (const [at, module] of modules.entries()) {
    const target = at % 2 ? await newTcpEdge(admin) : await newRoute(admin)
    targets.push(target)
    if (module) assert.equal((await admin('PUT', `${target.uri}/ip_restriction`, module)).status, 200)
  }
  const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3']
  const now = Date.now()
  for (const outcome of ['allowed', 'refused'] as const)
    await writeOutcomes(
      plane.db,
      targets.flatMap(({ id }) =>
        addresses.map((ip) => ({ targetId: toUuid(id), ip, outcome, at: now - (outcome === 'allowed' ? dayMs : 0) })),
      ),
    )
  type Shown = { ip: string; target: { id: string }; decided_by: { by: string; ip_policies: { id: string }[] } }
  const shown = async () =>
    ((await listOf(admin)) as Shown[])
      .map(({ ip, target, decided_by: { by, ip_policies } }) => [ip, target.id, by, ip_policies.map(({ id }) => id)])
      .sort()
  const [, narrowed, disabled] = targets
  const byModule = (ip: string, target: { id: string } | undefined) => [ip, target?.id, 'module', [narrow]]
  assert.deepEqual(await shown(), [byModule('192.0.2.2', narrowed), byModule('192.0.2.3', narrowed)].sort())
  await admin('PUT', `${narrowed?.uri}/ip_restriction`, { enabled: true, ip_policy_ids: [wide] })
  await admin('PUT', `${disabled?.uri}/ip_restriction`, { enabled: true, ip_policy_ids: [narrow] })
  assert.deepEqual(await shown(), [byModule('192.0.2.2', disabled), byModule('192.0.2.3', disabled)].sort())
})

test('a flood of addresses leaves at most 10,000 behind, and refused ones that were never let in leave none', async () => {
  const admin = await plane.newAccount()
  const accountId = uuidOf(admin)
  let lost = 0
  const buffer = createOutcomeBuffer(plane.db, (outcomes) => {
    lost += outcomes
  })
  const at = Date.now()
  const flood = async (outcome: 'allowed' | 'refused', network: string) => {
    for (let n = 0; n < 15_000; n++)
      buffer.saw({ accountId, type: 'api', ip: `2001:db8:${network}::${n.toString(16)}`, outcome, at })
    await buffer.flush()
  }
  const kept = async () =>
    (
      await one<{ kept: number }>(
        plane.db,
        sql`select count(*) as kept from address_outcomes where account_id = ${accountId}`,
      )
    ).kept
  await flood('refused', 'bad')
  assert.equal(await kept(), 0)
  await flood('allowed', 'f00d')
  assert.deepEqual([await kept(), lost], [10_000, 10_000], 'beyond the share of an hour nothing is written')
  await writeOutcomes(plane.db, [{ accountId, type: 'api', ip: '192.0.2.1', outcome: 'allowed', at: at + 1 }])
  assert.equal(await kept(), 10_000, 'the newest stay')
})

test('the list and the count for alerts read an index of those alone, among 50,000 others', async () => {
  const { admin } = await restricted()
  await run(
    plane.db,
    sql`
    insert into address_outcomes (account_id, type, target_id, ip, allowed_at)
    select ${uuidOf(admin)}, 'api', gen_random_uuid(), '10.0.0.0'::inet + n, now() from generate_series(1, 50000) n`,
  )
  await run(plane.db, sql`analyze address_outcomes`)
  const plans: string[] = []
  const query: Db['query'] = async (statement) => {
    const { rows } = await plane.db.query({ text: `explain (generic_plan) ${statement.text}` })
    plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'))
    return plane.db.query(statement)
  }
  const explaining: Db = { ...plane.db, query }
  const place = { refused_at: new Date().toISOString(), type: 'api', target_id: newUuid(), ip: '10.0.0.1' } as const
  await listRefusedAfterAllowed(explaining, { accountId: uuidOf(admin) }, Date.now(), undefined, 100)
  await listRefusedAfterAllowed(explaining, { accountId: uuidOf(admin) }, Date.now(), place, 100)
  await countRefusedAfterAllowed(explaining, Date.now())
  assert.equal(plans.length, 3)
  for (const plan of plans.slice(0, 2)) {
    assert.match(plan, /Index Scan Backward using address_outcomes_refused on/, plan)
    assert.doesNotMatch(plan, /Sort/, plan)
  }
  assert.match(plans[2] ?? '', /using address_outcomes_refused/, plans[2])
})

test('the metric counts by type of traffic', async () => {
  const { admin } = await restricted()
  const accountId = uuidOf(admin)
  const before = await countRefusedAfterAllowed(plane.db, Date.now())
  for (const [outcome, at] of [
    ['allowed', Date.now() - 1_000],
    ['refused', Date.now()],
  ] as const)
    await writeOutcomes(plane.db, [{ accountId, type: 'dashboard', ip: '192.0.2.1', outcome, at }])
  const counts = await countRefusedAfterAllowed(plane.db, Date.now())
  assert.deepEqual(counts, { ...before, dashboard: before.dashboard + 1 })
  const metrics = await fetch(`${plane.processes[0]?.origin}/metrics`).then((answer) => answer.text())
  for (const type of ['dashboard', 'api', 'endpoints'])
    assert.match(metrics, new RegExp(`^gatehouse_newly_refused_addresses\\{type="${type}"\\} \\d+$`, 'm'))
})
