import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type LoadedPolicy, loadPolicy } from '../src/access/policies.ts'
import { continuePolicy } from '../src/access/policy_delta.ts'
import { type Db, many, one, openPool, run } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { transaction } from '../src/db/transaction.ts'
import { encodePolicy } from '../src/distribution/policy_file.ts'
import { encodeRules } from '../src/distribution/rule_file.ts'
import type { Caller } from '../src/identity/caller.ts'
import { rfc3339 } from '../src/kernel/clock.ts'
import { newUuid, toId, type Uuid } from '../src/kernel/ids.ts'
import { parseAddress } from '../src/kernel/ip/address.ts'
import { canonicalCidr } from '../src/kernel/ip/canonical_cidr.ts'
import { formatCidr } from '../src/kernel/ip/cidr.ts'
import { lookup } from '../src/kernel/ip/ranges.ts'
import { beginRuleChange } from '../src/resources/ip_policy_rules/rules.ts'
import { deleteRule, insertRule, updateRule } from '../src/resources/ip_policy_rules/store.ts'
import { makeWorld, type Rule, seededRandom } from './deciders/cases.ts'
import { naive } from './deciders/deciders.ts'
import { newDatabase, startControlPlane } from './harness/control_plane.ts'
import { behindProxy, from, policyWith, putRules, restrict } from './harness/ip.ts'
import { pause } from './harness/poll.ts'
import { sized } from './harness/thorough.ts'

const pool = openPool(
  { url: await newDatabase(), poolSize: 4, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 },
  () => {},
)
after(() => pool.end())
const accountId = newUuid()
const caller = { accountId, role: 'admin' } as Caller
await run(pool, sql`insert into accounts (id, name) values (${accountId}, 'edited')`)

type Stored = Rule & { id: Uuid; expires_at: string | null }
const plain = { description: null, metadata: null }

async function newPolicy(): Promise<Uuid> {
  const policy = newUuid()
  await run(pool, sql`insert into ip_policies (account_id, id) values (${accountId}, ${policy})`)
  return policy
}
const rulesOf = (policy: Uuid) =>
  many<Stored>(pool, sql`select id, cidr::text, action, expires_at from ip_policy_rules where ip_policy_id = ${policy}`)

/** As the routes do it: the revision with the ranges it is about, then the rule. */
const change = (
  policy: Uuid,
  cidrs: string[] | undefined,
  write: (tx: Parameters<typeof run>[0]) => Promise<unknown>,
) =>
  transaction(pool, async (tx) => {
    assert.ok(await beginRuleChange(tx, caller, toId('ipp', policy), cidrs))
    await write(tx)
  })

async function edit(policy: Uuid, random: (below: number) => number, candidates: Rule[], now: number): Promise<void> {
  const rules = await rulesOf(policy)
  const pick = <Item>(items: readonly Item[]): Item => items[random(items.length)] as Item
  const wanted = pick(candidates)
  const cidr = canonicalCidr(wanted.cidr)
  const present = rules.find((rule) => canonicalCidr(rule.cidr) === cidr)
  const expires_at = random(4) ? null : rfc3339(now + random(20) * 1_000 - 5_000)
  if (!present) {
    // Each second one moves a rule that is there.
    const moved = rules.length && random(2) ? pick(rules) : undefined
    if (moved)
      return change(policy, [moved.cidr, cidr], (tx) =>
        updateRule(tx, caller, moved.id, { cidr, expires_at, ...plain }),
      )
    return change(policy, [cidr], (tx) =>
      insertRule(tx, caller, toId('ipp', policy), { cidr, action: wanted.action, expires_at, ...plain }),
    )
  }
  if (random(3))
    return change(policy, [present.cidr], (tx) =>
      updateRule(tx, caller, present.id, { cidr: present.cidr, expires_at, ...plain }),
    )
  return change(policy, [present.cidr], async (tx) => {
    await deleteRule(tx, caller, toId('ipr', present.id))
    // Replaced by one with the other action at times: another rule for the same range.
    if (random(2))
      await insertRule(tx, caller, toId('ipp', policy), {
        cidr: present.cidr,
        action: present.action === 'allow' ? 'deny' : 'allow',
        expires_at: null,
        ...plain,
      })
  })
}

const filesOf = ({ ranges, ruleIds }: LoadedPolicy) => ({
  decisions: encodePolicy(ranges).bytes.toString('hex'),
  rules: encodeRules(accountId, ranges, ruleIds).bytes.toString('hex'),
})

test('a policy continued through any changes is the one compiled from all its rules', async (t) => {
  const seed = Number(process.env.GATEHOUSE_TEST_SEED ?? Date.now() % 1_000_000)
  const random = seededRandom(seed)
  let continued = 0
  let steps = 0
  for (let scenario = 0; scenario < sized(12, 400); scenario++) {
    const worlds = Array.from({ length: 3 }, () => makeWorld(random))
    const candidates = worlds.flatMap(({ policies }) => policies.flat())
    const addresses = worlds.flatMap((world) => world.addresses)
    if (candidates.length === 0) continue
    const policy = await newPolicy()
    let now = Date.now()
    let current = await loadPolicy(pool, accountId, policy, now)
    for (let step = 0; step < 25; step++) {
      for (let edits = random(4); edits > 0; edits--) await edit(policy, random, candidates, now)
      now += random(6_000)
      assert.ok(current)
      const next = await continuePolicy(pool, accountId, current, now)
      const whole = await loadPolicy(pool, accountId, policy, now)
      assert.ok(whole)
      const place = `seed ${seed}, scenario ${scenario}, step ${step}`
      steps++
      if (next) continued++
      const got = next?.policy ?? whole
      assert.deepEqual(filesOf(got), filesOf(whole), place)
      assert.deepEqual([got.revision, got.validUntil], [whole.revision, whole.validUntil], place)
      const counting = (await rulesOf(policy)).filter(({ expires_at }) => !expires_at || Date.parse(expires_at) > now)
      const allows = naive(counting)
      for (const ip of addresses) {
        const address = parseAddress(ip)
        const match = address && lookup(got.ranges, address)
        assert.equal(match?.action === 'allow', allows(ip), `${place}: ${ip}`)
      }
      current = got
    }
  }
  t.diagnostic(`seed ${seed}: ${continued} of ${steps} steps continued`)
  assert.equal(continued, steps, 'every one of these changes says what it is about')
})

/** Every second address, far from the ones that are changed. */
async function newLargePolicy(rules: number): Promise<Uuid> {
  const policy = await newPolicy()
  await run(
    pool,
    sql`insert into ip_policy_rules (account_id, id, ip_policy_id, action, cidr)
    select ${accountId}, gen_random_uuid(), ${policy}, 'allow', ('10.0.0.0'::inet + n * 2)::cidr from generate_series(1, ${rules}) n`,
  )
  return policy
}
const load = async (policy: Uuid): Promise<LoadedPolicy> => {
  const loaded = await loadPolicy(pool, accountId, policy, Date.now())
  assert.ok(loaded)
  return loaded
}
const add = (policy: Uuid, cidr: string) =>
  change(policy, [cidr], (tx) =>
    insertRule(tx, caller, toId('ipp', policy), { cidr, action: 'deny', expires_at: null, ...plain }),
  )

test('a policy is loaded as a whole when it is not known what changed, or when it is too much', async () => {
  const policy = await newLargePolicy(6_000)
  const before = await load(policy)
  const isContinued = async () => (await continuePolicy(pool, accountId, before, Date.now())) !== undefined
  await add(policy, '192.0.2.1/32')
  assert.equal(await isContinued(), true)
  assert.equal(await continuePolicy(pool, accountId, before, before.asOf - 1), undefined, 'the clock was set back')
  await add(policy, '10.0.0.0/8')
  assert.equal(await isContinued(), false, 'a change around 6,000 rules')

  const second = await load(policy)
  await change(policy, undefined, async () => {})
  await add(policy, '192.0.2.2/32')
  assert.equal(await continuePolicy(pool, accountId, second, Date.now()), undefined, 'a change that says nothing')

  await run(pool, sql`delete from ip_policies where id = ${policy}`)
  assert.equal(await continuePolicy(pool, accountId, second, Date.now()), undefined, 'the policy is gone')
})

test('a process that has missed some changes continues, and one that has missed too many starts over', async () => {
  const policy = await newLargePolicy(10)
  const before = await load(policy)
  for (let index = 0; index < 100; index++) await add(policy, `192.0.2.${index}/32`)
  const continued = await continuePolicy(pool, accountId, before, Date.now())
  assert.ok(continued)
  assert.deepEqual(filesOf(continued.policy), filesOf(await load(policy)))
  await add(policy, '192.0.2.200/32')
  assert.equal(await continuePolicy(pool, accountId, before, Date.now()), undefined)
  const { kept } = await one<{ kept: number }>(
    pool,
    sql`select count(*) as kept from ip_policy_changes where ip_policy_id = ${policy}`,
  )
  assert.equal(kept, 100, 'no more than these are ever kept')
})

test('rules that expire are taken out without the rest being compiled again', async () => {
  const policy = await newLargePolicy(10)
  const now = Date.now()
  for (const seconds of [1, 2, 3])
    await change(policy, [`192.0.2.${seconds}/32`], (tx) =>
      insertRule(tx, caller, toId('ipp', policy), {
        cidr: `192.0.2.${seconds}/32`,
        action: 'allow',
        expires_at: rfc3339(now + seconds * 1_000),
        ...plain,
      }),
    )
  const before = await loadPolicy(pool, accountId, policy, now)
  assert.equal(before?.validUntil, now + 1_000)
  const later = before && (await continuePolicy(pool, accountId, before, now + 2_000))
  assert.deepEqual(
    later?.regions.map((region) => formatCidr(region)),
    ['192.0.2.1/32', '192.0.2.2/32'],
  )
  assert.equal(later?.policy.validUntil, now + 3_000)
})

test('processes that change one policy at the same time, and others that read it, see no mixture', async () => {
  const policy = await newLargePolicy(2_000)
  let current = await load(policy)
  let writing = true
  // Each takes a rule away and puts two others in its place, so that their number tells of a mixture.
  const writer = async (net: number) => {
    for (let round = 0; round < 40; round++) {
      const [gone, one, two] = [0, 1, 2].map((n) => `192.${net}.${round + (n ? 1 : 0)}.${n ? n : 1}/32`) as [
        string,
        string,
        string,
      ]
      await change(policy, [gone, one, two], async (tx) => {
        await run(tx, sql`delete from ip_policy_rules where ip_policy_id = ${policy} and cidr = ${gone}::cidr`)
        for (const cidr of [one, two])
          await insertRule(tx, caller, toId('ipp', policy), { cidr, action: 'deny', expires_at: null, ...plain })
      })
    }
  }
  const writers = Promise.all([0, 1, 2].map(writer)).finally(() => {
    writing = false
  })
  let continued = 0
  while (writing) {
    const next = await continuePolicy(pool, accountId, current, Date.now())
    if (next) continued++
    current = next?.policy ?? (await load(policy))
  }
  await writers
  const last = (await continuePolicy(pool, accountId, current, Date.now()))?.policy
  assert.ok(continued > 3 && last, `${continued}`)
  assert.deepEqual(filesOf(last), filesOf(await load(policy)))
})

test('a change between the two reads is never half applied', async () => {
  const policy = await newLargePolicy(10)
  await add(policy, '192.0.2.1/32')
  const before = await load(policy)
  await add(policy, '192.0.2.0/24')
  let reads = 0
  const changing: Db = {
    async query(statement) {
      // Moves a rule out of the region: to leave it there without its new place would be a policy that never was.
      if (++reads === 2)
        await change(policy, ['192.0.2.1/32', '198.51.100.1/32'], (tx) =>
          run(
            tx,
            sql`update ip_policy_rules set cidr = '198.51.100.1/32' where ip_policy_id = ${policy} and cidr = '192.0.2.1'`,
          ),
        )
      return pool.query(statement)
    },
  }
  assert.equal(await continuePolicy(changing, accountId, before, Date.now()), undefined)
  assert.equal(reads, 2)
})

test('after each change, by any route and through either process, the next request in both decides by it', async () => {
  const plane = await startControlPlane({ after }, { processes: 2, env: behindProxy })
  const admin = await plane.newAccount()
  const home = from('127.0.0.1')
  const call: typeof admin = Object.assign(
    (method: string, path: string, body?: unknown, options = {}) => admin(method, path, body, { ...home, ...options }),
    admin,
  )
  const kept = ['allow 127.0.0.1', ...Array.from({ length: 3_000 }, (_, i) => `allow 10.0.${i >> 7}.${(i & 127) * 2}`)]
  const policy = await policyWith(call, ...kept)
  await restrict(call, { enforced: true, ip_policy_ids: [policy] })
  const allows = async (ip: string, expected: boolean, what: string) => {
    for (const process of [0, 1]) {
      const { status } = await admin('GET', '/caller', undefined, { process, ...from(ip) })
      assert.equal(status === 200, expected, `${what}: ${ip} in process ${process}`)
    }
  }
  const put = (process: number, ...lines: string[]) =>
    putRules(call, policy, [...kept, ...lines], { process, headers: home.headers })
  for (let round = 0; round < 2; round++) {
    const process = round
    const ip = `192.0.2.${round}`
    await allows(ip, false, 'at first')
    const fields = { ip_policy_id: policy, action: 'allow', cidr: ip }
    const { body: rule } = await call('POST', '/ip_policy_rules', fields, { process, headers: home.headers })
    await allows(ip, true, 'added')
    await call('PATCH', rule.uri, { cidr: `198.51.100.${round}` }, { process: 1 - process, headers: home.headers })
    await allows(ip, false, 'moved')
    await allows(`198.51.100.${round}`, true, 'moved')
    assert.equal((await put(process, `allow ${ip}`)).body.removed, 1)
    await allows(`198.51.100.${round}`, false, 'replaced')
    await allows(ip, true, 'replaced')
    assert.deepEqual((await put(1 - process, `deny ${ip}`)).body.added, 1)
    await allows(ip, false, 'replaced by a deny')
    await put(process, `allow ${ip}`)
    const expires_at = new Date(Date.now() + 4_000).toISOString()
    await call(
      'POST',
      '/ip_policy_rules',
      { ip_policy_id: policy, action: 'deny', cidr: '192.0.2.0/24', expires_at },
      home,
    )
    await allows(ip, false, 'denied for some seconds')
    await pause(Date.parse(expires_at) + 50 - Date.now())
    await allows(ip, true, 'the denial has expired')
    await put(process)
  }
  const { noted } = await one<{ noted: number }>(
    plane.db,
    sql`select count(*) as noted from ip_policy_changes c join ip_policies p on p.id = c.ip_policy_id`,
  )
  const { revision } = await one<{ revision: number }>(plane.db, sql`select revision from ip_policies`)
  assert.equal(noted, revision - 1, 'all but the first replacement said what they changed')
})
