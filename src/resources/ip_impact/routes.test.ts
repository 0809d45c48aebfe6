import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { seededRandom } from '../../../test/deciders/cases.ts'
import type { Client } from '../../../test/harness/client.ts'
import { newRoute, newTcpEdge } from '../../../test/harness/fixtures.ts'
import { from, policyWith, putRules, restrict } from '../../../test/harness/ip.ts'
import { poll } from '../../../test/harness/poll.ts'
import { newUser } from '../../../test/harness/principals.ts'
import { signIn } from '../../../test/harness/session.ts'
import { sharedControlPlane } from '../../../test/harness/shared_control_plane.ts'
import { writeOutcomes } from '../../access/evidence/address_outcomes.ts'
import { addCounts } from '../../access/evidence/counts.ts'
import { addEdgeCounts } from '../../access/evidence/edge_counts.ts'
import { addSeenAddresses } from '../../access/evidence/seen_addresses.ts'
import { hourOf } from '../../kernel/clock.ts'
import { toUuid } from '../../kernel/ids.ts'

const plane = await sharedControlPlane({ after })
const hourMs = 60 * 60 * 1_000

const impactOf = async (as: Client, policy: string, ...lines: string[]) => {
  const text = { rawBody: lines.join('\n'), contentType: 'text/plain' }
  const answer = await as('POST', `/ip_policies/${policy}/impact`, undefined, text)
  assert.equal(answer.status, 200, answer.text)
  return answer.body
}
const ipsOf = ({ addresses }: { addresses: { ip: string }[] }) => addresses.map(({ ip }) => ip).sort()
const call = (as: Client, ip: string) => as('GET', '/caller', undefined, from(ip))

test('impact counts match a PUT of the same set, from JSON and from text', async () => {
  const admin = await plane.newAccount()
  const random = seededRandom(7)
  const policy = await policyWith(admin)
  const pick = <T>(...values: T[]) => values[random(values.length)] as T
  for (let round = 0; round < 30; round++) {
    const rules = Array.from({ length: 12 }, (_, i) => ({
      cidr: `10.0.0.${i}/32`,
      action: pick('allow', 'deny'),
      description: pick(null, 'a', 'b'),
      metadata: pick(null, 'm'),
      expires_at: pick(null, '2099-01-01T00:00:00.000Z'),
    })).filter(() => random(3))
    const lines = rules.map(
      ({ action, cidr, expires_at, description }) =>
        `${action} ${cidr} ${expires_at ? `expires=${expires_at}` : ''} # ${description ?? ''}`,
    )
    const {
      rules: count,
      added,
      changed,
      removed,
      kept,
    } = round % 2
      ? await impactOf(admin, policy, ...lines)
      : (await admin('POST', `/ip_policies/${policy}/impact`, { rules })).body
    const put =
      round % 2
        ? await putRules(admin, policy, lines)
        : await admin('PUT', `/ip_policies/${policy}/rules?confirm=true`, { rules })
    assert.deepEqual(
      { rules: count, added, changed, removed },
      { rules: put.body.rules, added: put.body.added, changed: put.body.changed, removed: put.body.removed },
    )
    assert.equal(kept, count - added)
  }
})

test('impact names the addresses that would be newly refused or allowed, and the PUT confirms it', async () => {
  const admin = await plane.newAccount()
  const member = await newUser(plane, admin)
  const policy = await policyWith(admin, 'allow 127.0.0.0/8', 'allow 192.0.2.0/28', 'deny 192.0.2.7')
  await restrict(admin, { type: 'api', enforced: true, ip_policy_ids: [policy] })
  const callers = ['192.0.2.1', '192.0.2.2', '192.0.2.7', '198.51.100.1', '2001:db8::1']
  for (const ip of callers) await call(admin, ip)
  const wanted = ['allow 127.0.0.0/8', 'allow 192.0.2.7', 'allow 192.0.2.2', 'allow 2001:db8::/32']
  const impact = await poll(
    () => impactOf(admin, policy, ...wanted),
    ({ traffic }) => traffic[0].addresses >= 6,
  )
  assert.deepEqual(
    impact.traffic.map(({ type, by, enforced }: Record<string, unknown>) => [type, by, enforced]),
    [['api', 'restriction', true]],
  )
  const [api] = impact.traffic
  assert.deepEqual(ipsOf(api.newly_refused), ['192.0.2.1'])
  assert.deepEqual(ipsOf(api.newly_allowed), ['192.0.2.7', '2001:db8::1'])
  assert.deepEqual([api.newly_refused.total, api.newly_allowed.total], [1, 2])
  assert.ok(Date.now() - Date.parse(impact.since) >= 7 * 24 * hourMs - 60_000)

  const asMember = await impactOf(member, policy, ...wanted)
  assert.deepEqual(asMember.traffic[0].newly_allowed, { total: 2, addresses: [] }, 'addresses are for admins')

  const before = new Map(await Promise.all(callers.map(async (ip) => [ip, (await call(admin, ip)).status] as const)))
  assert.equal((await putRules(admin, policy, wanted)).status, 200)
  const flipped = []
  for (const ip of callers) if ((await call(admin, ip)).status !== before.get(ip)) flipped.push(ip)
  assert.deepEqual(flipped.sort(), [...ipsOf(api.newly_refused), ...ipsOf(api.newly_allowed)].sort())
})

test('impact considers all policies and enforced restrictions, and lists warning ones separately', async () => {
  const admin = await plane.newAccount()
  const [mine, beside, other] = [
    await policyWith(admin, 'allow 10.0.0.0/8'),
    await policyWith(admin, 'allow 11.0.0.1', 'deny 10.0.0.2'),
    await policyWith(admin, 'allow 10.0.0.0/8', 'allow 11.0.0.0/8', 'deny 11.0.0.3'),
  ]
  const type = 'agent'
  const inForce = await restrict(admin, { type, enforced: true, ip_policy_ids: [mine, beside] })
  await restrict(admin, { type, enforced: true, ip_policy_ids: [other] })
  const trial = await restrict(admin, { type, ip_policy_ids: [mine] })
  const accountId = toUuid(admin.accountId as `ac_${string}`)
  const ips = ['10.0.0.1', '10.0.0.2', '11.0.0.1', '11.0.0.2', '11.0.0.3', '12.0.0.1']
  await addSeenAddresses(
    plane.db,
    ips.map((sourceIp) => ({ accountId, type, sourceIp, hour: Date.now() - hourMs })),
  )
  await addSeenAddresses(plane.db, [{ accountId, type, sourceIp: '11.0.0.9', hour: Date.now() - 8 * 24 * hourMs }])
  const { traffic } = await impactOf(admin, mine, 'allow 11.0.0.0/8', 'allow 12.0.0.0/8')
  const [enforced, warning] = traffic
  assert.deepEqual(
    [enforced.enforced, enforced.used_by, enforced.addresses],
    [true, [{ id: inForce.id, uri: inForce.uri }], 6],
  )
  // 10.0.0.2 was refused beside it, 11.0.0.1 allowed beside it; 11.0.0.3 and 12.0.0.1 stay refused by the other one.
  assert.deepEqual(ipsOf(enforced.newly_refused), ['10.0.0.1'])
  assert.deepEqual(ipsOf(enforced.newly_allowed), ['11.0.0.2'])
  assert.deepEqual([warning.enforced, warning.used_by], [false, [{ id: trial.id, uri: trial.uri }]])
  assert.deepEqual(ipsOf(warning.newly_refused), ['10.0.0.1', '10.0.0.2'])
  assert.deepEqual(ipsOf(warning.newly_allowed), ['11.0.0.1', '11.0.0.2', '11.0.0.3', '12.0.0.1'])
  assert.equal(traffic.length, 2)
})

test('for edges and routes, impact shows where an address was seen, by modules and restrictions together', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8')
  const module = { ip_restriction: { ip_policy_ids: [policy] } }
  const [edge, route] = [await newTcpEdge(admin, module), await newRoute(admin, module)]
  const disabled = await newTcpEdge(admin, { ip_restriction: { enabled: false, ip_policy_ids: [policy] } })
  const counted = (target: { id: string }, sourceIp: string) => ({
    edgeId: toUuid(target.id as `edgtcp_${string}`),
    sourceIp,
    outcome: 'refused' as const,
    byModule: true,
    hour: hourOf(Date.now()),
    count: 1,
    lastAt: Date.now(),
  })
  await addEdgeCounts(plane.db, [
    counted(edge, '11.0.0.1'),
    counted(edge, '11.0.0.2'),
    counted(route, '11.0.0.1'),
    counted(disabled, '11.0.0.1'),
  ])
  const account = await restrict(admin, {
    type: 'endpoints',
    enforced: true,
    ip_policy_ids: [await policyWith(admin, 'allow 0.0.0.0/0', 'deny 11.0.0.2')],
  })
  const { traffic } = await impactOf(admin, policy, 'allow 11.0.0.0/8')
  assert.equal(traffic.length, 1)
  const [{ by, type, used_by, addresses, newly_allowed }] = traffic
  assert.deepEqual([by, type, addresses], ['module', 'endpoints', 2])
  assert.deepEqual(used_by.map(({ id }: { id: string }) => id).sort(), [edge.id, route.id].sort())
  assert.deepEqual(
    newly_allowed.addresses
      .map(({ ip, target }: { ip: string; target: { id: string; uri: string } }) => `${ip} ${target.uri}`)
      .sort(),
    [`11.0.0.1 ${edge.uri}`, `11.0.0.1 ${route.uri}`].sort(),
  )

  // The restriction itself, seen by what it counted.
  const restrictionId = toUuid(account.id)
  const hour = hourOf(Date.now())
  await addCounts(plane.db, [
    { restrictionId, sourceIp: '11.0.0.2', outcome: 'refused', hour, count: 1, lastAt: Date.now(), lastApiKeyId: null },
  ])
  const [{ newly_allowed: back }] = (await impactOf(admin, account.ip_policies[0].id, 'allow 0.0.0.0/0')).traffic
  assert.deepEqual(ipsOf(back), ['11.0.0.2'])
})

test('addresses that an edge or route let in are evaluated, once each, and where none is known impact says so', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8')
  const module = { ip_restriction: { ip_policy_ids: [policy] } }
  const [edge, route, silent] = [
    await newTcpEdge(admin, module),
    await newRoute(admin, module),
    await newTcpEdge(admin, module),
  ]
  const known = async () => {
    const [row] = (await impactOf(admin, policy)).traffic
    return [row.let_in_known, row.unknown_at.map(({ id }: { id: string }) => id).sort(), row.newly_refused.total]
  }
  assert.deepEqual(await known(), ['none', [edge.id, route.id, silent.id].sort(), 0])
  const at = Date.now() - hourMs
  const letIn = (target: { id: string }, ip: string, outcome: 'allowed' | 'refused' = 'allowed') => ({
    targetId: toUuid(target.id as `edgtcp_${string}`),
    ip,
    outcome,
    at: outcome === 'refused' ? at + 1 : at,
  })
  await writeOutcomes(plane.db, [letIn(edge, '10.0.0.1'), letIn(edge, '10.0.0.2'), letIn(route, '10.0.0.1')])
  // Also refused in between: still one address.
  await addEdgeCounts(plane.db, [
    {
      edgeId: toUuid(edge.id as `edgtcp_${string}`),
      sourceIp: '10.0.0.2',
      outcome: 'refused',
      byModule: true,
      hour: hourOf(Date.now()),
      count: 1,
      lastAt: Date.now(),
    },
  ])
  // One of them was let in at two places.
  assert.deepEqual(await known(), ['some', [silent.id], 2])
  const [{ newly_refused, addresses }] = (await impactOf(admin, policy, 'allow 10.0.0.1')).traffic
  assert.equal(addresses, 2)
  assert.deepEqual(
    newly_refused.addresses.map(({ ip, target }: { ip: string; target: { id: string } }) => [ip, target.id]),
    [['10.0.0.2', edge.id]],
  )

  // A restriction of all edges: each address once, wherever it was let in.
  const wide = await policyWith(admin, 'allow 0.0.0.0/0')
  await restrict(admin, { type: 'endpoints', enforced: true, ip_policy_ids: [wide] })
  const [onAll] = (await impactOf(admin, wide, 'allow 10.0.0.2')).traffic
  assert.deepEqual([onAll.by, onAll.let_in_known, onAll.unknown_at], ['restriction', 'some', []])
  assert.deepEqual(ipsOf(onAll.newly_refused), ['10.0.0.1'])
})

test('modules that only warn have an entry of their own, in which the restrictions of the account do not count', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8')
  const module = (mode: string) => ({ ip_restriction: { ip_policy_ids: [policy], mode } })
  const [strict, trial] = [await newTcpEdge(admin, module('enforce')), await newTcpEdge(admin, module('warn'))]
  await restrict(admin, {
    ...{ type: 'endpoints', enforced: true },
    ip_policy_ids: [await policyWith(admin, 'deny 10.0.0.1', 'allow 10.0.0.2')],
  })
  const letIn = (id: string, ip: string) =>
    ({ targetId: toUuid(id as `edgtcp_${string}`), ip, outcome: 'allowed', at: Date.now() }) as const
  await writeOutcomes(
    plane.db,
    [strict.id, trial.id].flatMap((id) => [letIn(id, '10.0.0.1'), letIn(id, '10.0.0.2')]),
  )
  const { traffic } = await impactOf(admin, policy)
  type Row = { enforced: boolean; used_by: { id: string }[]; newly_refused: { addresses: { ip: string }[] } }
  assert.deepEqual(
    traffic.map((row: Row) => [row.enforced, row.used_by[0]?.id, ipsOf(row.newly_refused)]),
    [
      [true, strict.id, ['10.0.0.2']],
      [false, trial.id, ['10.0.0.1', '10.0.0.2']],
    ],
  )
})

test('impact knows all callers of the API, and none of those that agents ask about', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 0.0.0.0/0')
  for (const type of ['api', 'agent', 'endpoints'] as const)
    await restrict(admin, { type, enforced: false, ip_policy_ids: [policy] })
  const { traffic } = await impactOf(admin, policy, 'allow 0.0.0.0/0')
  assert.deepEqual(
    Object.fromEntries(traffic.map(({ type, let_in_known }: Record<string, string>) => [type, let_in_known])),
    { api: 'all', agent: 'none', endpoints: 'none' },
  )
})

test('impact names at most 100 addresses, latest first, and counts all', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8')
  await restrict(admin, { type: 'agent', enforced: true, ip_policy_ids: [policy] })
  const accountId = toUuid(admin.accountId as `ac_${string}`)
  await addSeenAddresses(
    plane.db,
    Array.from({ length: 130 }, (_, i) => ({
      accountId,
      type: 'agent' as const,
      sourceIp: `10.0.0.${i}`,
      hour: Date.now() - i * hourMs,
    })),
  )
  const [{ newly_refused }] = (await impactOf(admin, policy)).traffic
  assert.equal(newly_refused.total, 130)
  assert.deepEqual(
    newly_refused.addresses.map(({ ip }: { ip: string }) => ip),
    Array.from({ length: 100 }, (_, i) => `10.0.0.${i}`),
  )
})

test('impact says whether the PUT would be refused as a self-lockout, by token and by session', async () => {
  const admin = await plane.newAccount()
  const browser = await signIn(admin, from('192.0.2.1'))
  const policy = await policyWith(admin, 'allow 192.0.2.1', 'allow 127.0.0.1')
  await restrict(admin, { type: 'dashboard', enforced: true, ip_policy_ids: [policy] })
  const rules = [{ action: 'allow', cidr: '127.0.0.1' }]
  for (const [as, refuses, status] of [
    [browser, true, 409],
    [admin, false, 200],
  ] as const) {
    const { body } = await as('POST', `/ip_policies/${policy}/impact`, { rules })
    assert.equal(body.refuses_caller, refuses)
    assert.equal((await as('PUT', `/ip_policies/${policy}/rules`, { rules })).status, status)
  }
})

test('for an unused policy, impact only counts; mistakes are reported as by PUT', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8')
  const { traffic, refuses_caller, removed } = await impactOf(admin, policy)
  assert.deepEqual([traffic, refuses_caller, removed], [[], false, 1])
  const text = { rawBody: 'allow 10.0.0.0/8\nallow 10.1.2.3/8', contentType: 'text/plain' }
  const { body } = await admin('POST', `/ip_policies/${policy}/impact`, undefined, text)
  assert.equal(body.details.field, 'line 2')
})
