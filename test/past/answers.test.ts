// What an address check says of an earlier time, beside what it said at that time.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { toUuid } from '../../src/kernel/ids.ts'
import { type Account, startControlPlane } from '../harness/control_plane.ts'
import { assertRefused, make, newHttpsEdge, newRoute, newTcpEdge } from '../harness/fixtures.ts'
import { behindProxy, policyWith, putRules, restrict } from '../harness/ip.ts'
import { pause } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import { randomBelow } from '../harness/random.ts'
import { sized } from '../harness/thorough.ts'

const plane = await startControlPlane({ after }, { env: behindProxy })
const oneOf = <Item>(items: readonly Item[]): Item => items[randomBelow(items.length)] as Item
const addresses = ['10.0.0.1', '10.1.2.3', '192.0.2.1', '2001:db8::1', '::ffff:10.0.0.1']
const ranges = ['10.0.0.0/8', '10.1.0.0/16', '10.0.0.1/32', '0.0.0.0/0', '192.0.2.0/24', '2001:db8::/32', '::/0']

// biome-ignore lint/suspicious/noExplicitAny: resources as the API shows them; every answer is checked against openapi.json.
type Made = any
type Question = { ip: string; type?: string; edge_id?: string; route_id?: string }

/** Nothing but what decided: what was deleted since is named all the same, and rules of replaced sets have no id. */
const shownOf = ({ status, body }: { status: number; body: Made }) =>
  status === 200
    ? {
        allowed: body.allowed,
        steps: body.steps.map(({ policies, ...step }: Made) => ({
          ...step,
          policies: policies.map(({ ip_policy, action, cidr }: Made) => ({ ip_policy, action, cidr })),
        })),
      }
    : { status }

async function questionsOf(as: Account): Promise<Question[]> {
  const { tcp_edges } = (await as('GET', '/edges/tcp')).body
  const { https_edges } = (await as('GET', '/edges/https')).body
  const routes = https_edges.flatMap((edge: Made) => edge.routes)
  const targets = [
    ...['api', 'endpoints'].map((type) => ({ type })),
    ...tcp_edges.map(({ id }: Made) => ({ edge_id: id })),
    ...routes.map(({ id }: Made) => ({ route_id: id })),
  ]
  return targets.flatMap((target) => addresses.map((ip) => ({ ip, ...target })))
}

const rule = () => ({ action: oneOf(['allow', 'allow', 'deny']), cidr: oneOf(ranges) })

async function change(as: Account): Promise<void> {
  const list = async (path: string, field: string): Promise<Made[]> => (await as('GET', path)).body[field]
  const policies = await list('/ip_policies', 'ip_policies')
  const rules = await list('/ip_policy_rules', 'ip_policy_rules')
  const restrictions = await list('/ip_restrictions', 'ip_restrictions')
  const edges = await list('/edges/https', 'https_edges')
  const tcp = await list('/edges/tcp', 'tcp_edges')
  const targets = [...tcp, ...edges.flatMap((edge) => edge.routes)]
  const ids = () => [...new Set([oneOf(policies).id, oneOf(policies).id])]
  const [policy, target, restriction, one] = [oneOf(policies), oneOf(targets), oneOf(restrictions), oneOf(rules)]
  const module = { ip_policy_ids: ids(), enabled: randomBelow(4) > 0, mode: oneOf(['enforce', 'enforce', 'warn']) }
  const free = '?allow_self_lockout=true'
  const doing = oneOf<() => Promise<unknown>>([
    () => as('POST', `/ip_policy_rules${free}`, { ip_policy_id: policy.id, ...rule() }),
    () =>
      as('POST', `/ip_policy_rules${free}`, {
        ...{ ip_policy_id: policy.id, ...rule() },
        expires_at: new Date(Date.now() + randomBelow(600)).toISOString(),
      }),
    async () =>
      one && as('PATCH', `/ip_policy_rules/${one.id}${free}`, oneOf([{ action: 'deny' }, { cidr: oneOf(ranges) }])),
    async () => one && as('DELETE', `/ip_policy_rules/${one.id}${free}`),
    () => as('PUT', `/ip_policies/${policy.id}/rules${free}`, { rules: [rule()] }),
    () =>
      as('POST', `/ip_restrictions${free}`, {
        type: oneOf(['endpoints', 'agent']),
        enforced: true,
        ip_policy_ids: ids(),
      }),
    async () =>
      restriction &&
      as('PATCH', `/ip_restrictions/${restriction.id}${free}`, { enforced: randomBelow(2) > 0, ip_policy_ids: ids() }),
    async () => restriction && as('DELETE', `/ip_restrictions/${restriction.id}${free}`),
    async () => target && as('PUT', `${target.uri}/ip_restriction`, module),
    async () => target && as('PATCH', target.uri, { ip_restriction: oneOf([null, module]), description: 'other' }),
    async () => target && as('DELETE', `${target.uri}/ip_restriction`),
    async () => target && as('DELETE', target.uri),
    () => newTcpEdge(as, { ip_restriction: module }),
    async () => edges[0] && newRoute(as, { ip_restriction: module }, edges[0]),
    async () => edges.length > 1 && as('DELETE', edges[0].uri),
    async () => edges.length < 3 && newRoute(as, {}, await newHttpsEdge(as)),
    () => policyWith(as, 'allow 10.0.0.0/8'),
    () => as('DELETE', `/ip_policies/${policy.id}`),
    async () => {
      const changes = [
        { operation: 'ip_policy_rules.create', body: { ip_policy_id: policy.id, ...rule() } },
        { operation: 'ip_restrictions.create', body: { type: 'endpoints', enforced: true, ip_policy_ids: ids() } },
      ]
      const draft = await as('POST', '/change_sets', { changes })
      if (draft.status === 201) await as('POST', `/change_sets/${draft.body.id}/apply`, {})
    },
  ])
  await doing()
}

const moments = sized(15, 120)
test(`at ${moments} earlier times, what decided then is what was shown then`, async () => {
  const as = await plane.newAccount()
  for (let count = 0; count < 3; count++) await policyWith(as, 'allow 10.0.0.0/8')
  await newRoute(as, {}, await newHttpsEdge(as))
  const seen: { at: string; until: string; question: Question; shown: object }[] = []
  // By the clock of the database, which gives events their times.
  const now = async () => {
    const { rows } = await plane.db.query({ text: 'select clock_timestamp() as now' })
    return new Date(rows[0]?.now as string).toISOString()
  }
  for (let moment = 0; moment < moments; moment++) {
    await change(as)
    await pause(3)
    const at = await now()
    const answers: { question: Question; shown: object }[] = []
    for (const question of (await questionsOf(as)).filter(() => randomBelow(2)))
      answers.push({ question, shown: shownOf(await as('POST', '/ip_checks', question)) })
    const until = await now()
    seen.push(...answers.map((answer) => ({ at, until, ...answer })))
    await pause(3)
  }
  const counts = { exact: 0, notRecorded: 0 }
  for (const { at, until, question, shown } of seen) {
    const then = await as('POST', '/ip_checks', { ...question, at })
    if (then.body.error_code === 'ERR_NOT_RECORDED') {
      assert.ok(then.body.details.earliest > at, then.text)
      counts.notRecorded++
    } else {
      // A rule may have expired between the two.
      const later = await as('POST', '/ip_checks', { ...question, at: until })
      const isOneOfThem = [then, later].some((answer) => isDeepStrictEqual(shownOf(answer), shown))
      if (!isOneOfThem) assert.deepEqual(shownOf(then), shown, `${at} ${JSON.stringify(question)}\n${then.text}`)
      counts.exact++
    }
  }
  console.log(counts)
  assert.ok(counts.exact > seen.length / 2)
})

test('a time that is not recorded is refused with the earliest that can be asked about', async () => {
  const as = await plane.newAccount()
  const policy = await policyWith(as, 'allow 10.0.0.0/8')
  await restrict(as, { type: 'agent', enforced: true, ip_policy_ids: [policy] })
  const [first] = (await as('GET', '/audit_events')).body.audit_events.toReversed()
  const ask = (at: string, more: object = {}) =>
    as('POST', '/ip_checks', { ip: '10.0.0.1', type: 'agent', at, ...more })

  const early = await ask('2020-01-01T00:00:00Z')
  assertRefused(early, 409, 'ERR_NOT_RECORDED')
  assert.equal(early.body.details.earliest, first.created_at)
  assertRefused(await ask('2999-01-01T00:00:00Z'), 400, 'ERR_INVALID_FIELD', 'at')

  // What many rules at once were is forgotten after a while.
  await pause(5)
  const between = new Date().toISOString()
  await pause(5)
  await putRules(as, policy, ['allow 11.0.0.0/8'])
  assert.equal((await ask(between)).body.allowed, true)
  assert.equal((await ask(new Date().toISOString())).body.allowed, false)
  await plane.db.query({
    text: 'delete from rule_set_changes where account_id = $1',
    values: [toUuid(as.accountId as `ac_${string}`)],
  })
  const forgotten = await ask(between)
  assertRefused(forgotten, 409, 'ERR_NOT_RECORDED')
  assert.equal((await ask(forgotten.body.details.earliest)).status, 200)

  // A change that left no event, such as one by hand in the database, is noticed with the next event about it.
  const edge = await newTcpEdge(as, { ip_restriction: { ip_policy_ids: [policy] } })
  await pause(5)
  const known = new Date().toISOString()
  await pause(5)
  await as('PATCH', edge.uri, { ip_restriction: null })
  assert.equal((await ask(known, { type: undefined, edge_id: edge.id })).status, 200)
  await plane.db.query({
    text: `update audit_events set after = jsonb_set(after, '{ip_restriction}', '{"enabled": true, "mode": "warn", "ip_policies": []}')
      where account_id = $1 and operation = 'tcp_edges.update'`,
    values: [toUuid(as.accountId as `ac_${string}`)],
  })
  assertRefused(await ask(known, { type: undefined, edge_id: edge.id }), 409, 'ERR_NOT_RECORDED')
})

test('others than admins cannot ask about an earlier time, nor admins of another account', async () => {
  const as = await plane.newAccount()
  const edge = await newTcpEdge(as)
  const at = new Date().toISOString()
  const member = await newUser(plane, as)
  assertRefused(await member('POST', '/ip_checks', { ip: '10.0.0.1', type: 'api', at }), 403, 'ERR_FORBIDDEN')
  const other = await plane.newAccount()
  const now = new Date().toISOString()
  assertRefused(await other('POST', '/ip_checks', { ip: '10.0.0.1', edge_id: edge.id, at: now }), 404, 'ERR_NOT_FOUND')
  assert.equal((await as('DELETE', edge.uri)).status, 204)
  assertRefused(await other('POST', '/ip_checks', { ip: '10.0.0.1', edge_id: edge.id, at: now }), 404, 'ERR_NOT_FOUND')
  assert.equal((await as('POST', '/ip_checks', { ip: '10.0.0.1', edge_id: edge.id, at })).status, 200)
  const created = await make(as, '/ip_policies')
  assert.ok(created.id)
})
