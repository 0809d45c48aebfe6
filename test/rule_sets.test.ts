import assert from 'node:assert/strict'
import { availableParallelism, loadavg } from 'node:os'
import { after, test } from 'node:test'
import { many } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { toUuid } from '../src/kernel/ids.ts'
import type { Answer } from './harness/client.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { policyWith, putRules } from './harness/ip.ts'
import { pause } from './harness/poll.ts'
import { printed, sized } from './harness/thorough.ts'

const plane = await startControlPlane({ after }, { processes: 2 })
const bystander = await plane.newAccount()

type Account = Awaited<ReturnType<typeof plane.newAccount>>
type Line = { action: 'allow' | 'deny'; cidr: string; description: string }
/** 100,000 is the limit; rule_set_plans.test.ts replaces that many in every run. */
const most = sized(20_000, 100_000)
const few = sized(3_000, 10_000)
/** The bounds are for a machine of our own. One that has five things to do for each core gets five times as long. */
const crowding = () => Math.max(1, (loadavg()[0] ?? 0) / availableParallelism())
/** Different sets for different `net`s; half of the rules IPv6. */
const setOf = (count: number, net: number): Line[] =>
  Array.from({ length: count }, (_, i) => ({
    action: i % 5 ? 'allow' : 'deny',
    cidr:
      i % 2 ? `${net}.${i >> 16}.${(i >> 8) & 255}.${i & 255}/32` : `2001:db8:${net}:${(1 + i / 2).toString(16)}::/64`,
    description: `customer ${i}`,
  }))
const linesOf = (set: Line[]) => set.map(({ action, cidr, description }) => `${action} ${cidr} # ${description}`)
const putText = (admin: Account, policy: string, set: Line[], process = 0) =>
  putRules(admin, policy, linesOf(set), { process })
const putJson = (admin: Account, policy: string, rules: Line[], process = 0) =>
  admin('PUT', `/ip_policies/${policy}/rules?confirm=true`, { rules }, { process })
const stored = (policy: string) =>
  many<{ id: string; cidr: string; action: string }>(
    plane.db,
    sql`select id, cidr::text, action from ip_policy_rules where ip_policy_id = ${toUuid(policy as `ipp_${string}`)} order by id`,
  )

/** How long the slowest of the requests took that a client of another account sent one after another meanwhile. */
async function withBystander<Result>(work: Promise<Result>): Promise<{ result: Result; ms: number; worstMs: number }> {
  const began = performance.now()
  let done = false
  let worstMs = 0
  const watch = async () => {
    while (!done) {
      const sent = performance.now()
      assert.equal((await bystander('GET', '/api_keys')).status, 200)
      worstMs = Math.max(worstMs, performance.now() - sent)
      await pause(5)
    }
  }
  const finish = work.finally(() => {
    done = true
  })
  const [result] = await Promise.all([finish, watch()])
  return { result, ms: performance.now() - began, worstMs }
}

test(`${printed(most)} rules are replaced by one request within 10 s, and others are served meanwhile`, async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin)
  for (const { net, present } of [
    { net: 10, present: 0 },
    { net: 11, present: most },
  ]) {
    const { result, ms, worstMs } = await withBystander(putText(admin, policy, setOf(most, net)))
    assert.equal(result.status, 200, result.text)
    const { rules, added, removed } = result.body
    assert.deepEqual({ rules, added, removed }, { rules: most, added: most, removed: present })
    console.log(`${present} rules before: ${Math.round(ms)} ms; slowest other request: ${Math.round(worstMs)} ms`)
    assert.ok(ms < 10_000 * crowding(), `${Math.round(ms)} ms`)
    assert.ok(worstMs < 2_000 * crowding(), `another request took ${Math.round(worstMs)} ms`)
  }

  const before = await stored(policy)
  const set = setOf(most, 11)
  set[most / 2] = { action: 'allow', cidr: '192.0.2.1/32', description: 'the only one that differs' }
  const again = await putText(admin, policy, set)
  assert.deepEqual([again.body.added, again.body.changed, again.body.removed], [1, 0, 1])
  const kept = new Set(before.map(({ id }) => id))
  const strangers = (await stored(policy)).filter(({ id }) => !kept.has(id))
  assert.deepEqual(
    strangers.map(({ cidr }) => cidr),
    ['192.0.2.1/32'],
  )
})

test(`${printed(most)} rules are read by one request within 10 s, as JSON and as text, and others are served meanwhile`, async () => {
  const admin = await plane.newAccount()
  const set = setOf(most, 12)
  const policy = await policyWith(admin, ...linesOf(set))
  for (const accept of ['application/json', 'text/plain']) {
    const read = admin('GET', `/ip_policies/${policy}/rules`, undefined, { headers: { accept } })
    const { result, ms, worstMs } = await withBystander(read)
    assert.equal(result.headers.get('content-encoding'), 'gzip')
    console.log(`${accept}: ${Math.round(ms)} ms; slowest other request: ${Math.round(worstMs)} ms`)
    assert.ok(ms < 10_000 * crowding(), `${Math.round(ms)} ms`)
    assert.ok(worstMs < 2_000 * crowding(), `another request took ${Math.round(worstMs)} ms`)
    if (accept === 'text/plain') assert.equal(result.text, `${linesOf(set).join('\n')}\n`)
    else assert.equal(result.body.rules.length, most)
  }
})

test(`the impact of replacing ${printed(most)} rules is reported within 10 s, and others are served meanwhile`, async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, ...linesOf(setOf(most, 13)))
  await admin('POST', '/ip_restrictions', { type: 'agent', enforced: true, ip_policy_ids: [policy] })
  const asked = admin('POST', `/ip_policies/${policy}/impact`, undefined, {
    rawBody: linesOf(setOf(most, 14)).join('\n'),
    contentType: 'text/plain',
  })
  const { result, ms, worstMs } = await withBystander(asked)
  assert.deepEqual([result.body.added, result.body.removed, result.body.kept], [most, most, 0])
  console.log(`impact: ${Math.round(ms)} ms; slowest other request: ${Math.round(worstMs)} ms`)
  assert.ok(ms < 10_000 * crowding(), `${Math.round(ms)} ms`)
  assert.ok(worstMs < 2_000 * crowding(), `another request took ${Math.round(worstMs)} ms`)
})

test('reading a policy while it is replaced returns one of the two sets, never a mix', async () => {
  const admin = await plane.newAccount()
  const sets = [setOf(few, 10), setOf(few, 11)] as const
  const wanted = sets.map((set) => linesOf(set).sort().join('\n'))
  const policy = await policyWith(admin, ...linesOf(sets[0]))
  let replacing = true
  const replaced = (async () => {
    for (let round = 0; round < 4; round++) await putText(admin, policy, sets[round % 2 ? 0 : 1])
  })().finally(() => {
    replacing = false
  })
  const accept = { headers: { accept: 'text/plain' }, process: 1 }
  while (replacing) {
    const { text } = await admin('GET', `/ip_policies/${policy}/rules`, undefined, accept)
    assert.ok(wanted.includes(text.trimEnd().split('\n').sort().join('\n')), 'some rules of each set')
  }
  await replaced
})

test(`one bad line among ${printed(most)} rejects the whole set and is named`, async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 192.0.2.1')
  const before = await stored(policy)
  const lines = linesOf(setOf(most, 10))
  lines[most / 2 - 1] = 'allow 10.1.2.3/8'
  const text = await putRules(admin, policy, lines)
  assert.equal(`${text.status} ${text.body.details.field}`, `400 line ${most / 2}`)
  const rules = setOf(5_000, 10)
  rules[2_500] = { action: 'allow', cidr: '10.1.2.3/8', description: '' }
  const json = await putJson(admin, policy, rules)
  assert.equal(`${json.status} ${json.body.details.field}`, '400 rules[2500].cidr')
  lines[most / 2 - 1] = lines[0] as string
  assert.equal((await putRules(admin, policy, lines)).body.details.field, `line ${most / 2}`, 'the same range twice')
  assert.deepEqual(await stored(policy), before)
  // The connection is as good as before: what was left of the body does not stand in its way.
  for (let i = 0; i < 5; i++) assert.equal((await admin('GET', '/caller')).status, 200)
})

test('two concurrent replacements of a policy run one after the other and leave one of the two sets', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin)
  const sets = [setOf(few, 10), setOf(few, 11)] as const
  const wanted = sets.map((set) => set.map(({ action, cidr }) => `${action} ${cidr}`).sort())
  for (let round = 0; round < 3; round++) {
    const answers: Answer[] = await Promise.all([
      putText(admin, policy, sets[0], 0),
      putJson(admin, policy, sets[1], 1),
    ])
    for (const { status, text } of answers) assert.equal(status, 200, text)
    const found = (await stored(policy)).map(({ action, cidr }) => `${action} ${cidr}`).sort()
    assert.ok(
      wanted.some((set) => set.join() === found.join()),
      `${found.length} rules, neither set`,
    )
  }
})
