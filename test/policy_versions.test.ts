import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type DbPool, openPool, run } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { transaction } from '../src/db/transaction.ts'
import { blobName } from '../src/distribution/pieces.ts'
import type { Caller } from '../src/identity/caller.ts'
import { newUuid, toId, type Uuid } from '../src/kernel/ids.ts'
import { defaultCell } from '../src/operations/placement.ts'
import { compileRecords } from '../src/publisher/records/compile.ts'
import { compiled, createPolicyVersions } from '../src/publisher/records/policy_versions.ts'
import { beginRuleChange } from '../src/resources/ip_policy_rules/rules.ts'
import { insertRule } from '../src/resources/ip_policy_rules/store.ts'
import { newDatabase } from './harness/control_plane.ts'

const pool = openPool(
  { url: await newDatabase(), poolSize: 4, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 },
  () => {},
)
after(() => pool.end())
const accountId = newUuid()
const caller = { accountId, role: 'admin' } as Caller
await run(pool, sql`insert into accounts (id, name) values (${accountId}, 'published')`)

async function newPolicy(rules = 30_000): Promise<Uuid> {
  const policy = newUuid()
  await run(pool, sql`insert into ip_policies (account_id, id) values (${accountId}, ${policy})`)
  for (const first of ['10.0.0.0', '2001:db8::'])
    await run(
      pool,
      sql`insert into ip_policy_rules (account_id, id, ip_policy_id, action, cidr)
      select ${accountId}, gen_random_uuid(), ${policy}, 'allow', (${first}::inet + n * 2)::cidr
      from generate_series(1, ${rules / 2}) n`,
    )
  return policy
}
const add = (policy: Uuid, cidr: string, expires_at: string | null = null) =>
  transaction(pool, async (tx) => {
    await beginRuleChange(tx, caller, toId('ipp', policy), [cidr])
    const rule = { cidr, action: 'deny' as const, expires_at, description: null, metadata: null }
    return insertRule(tx, caller, toId('ipp', policy), rule)
  })
/** How many rows of rules are asked for. */
function counting(): { db: DbPool; wholes: () => number } {
  let wholes = 0
  const query: DbPool['query'] = (statement) => {
    if (statement.text.includes('with batch as')) wholes++
    return pool.query(statement)
  }
  return { db: { ...pool, query }, wholes: () => wholes }
}
const compile = async (
  db: DbPool,
  policy: Uuid,
  findPolicyVersion?: ReturnType<typeof createPolicyVersions>['current'],
) => {
  const changed = [{ key: `policy.${toId('ipp', policy)}` as const, accountId }]
  const [record] = await compileRecords(
    db,
    defaultCell,
    changed,
    Date.now(),
    findPolicyVersion && { findPolicyVersion },
  )
  assert.ok(record)
  return { ...record, blobs: record.blobs.map(blobName) }
}

test('what is published of a changed policy is what compiling all its rules gives, without reading them', async () => {
  const policy = await newPolicy()
  const versions = createPolicyVersions(64 * 1024 * 1024)
  await versions.fromRules(pool, accountId, policy, Date.now())
  const { db, wholes } = counting()
  for (const cidr of ['192.0.2.1/32', '10.0.1.0/24', '2001:db8::/120', '0.0.0.0/5']) {
    await add(policy, cidr)
    assert.deepEqual(await compile(db, policy, versions.current), await compile(pool, policy), cidr)
  }
  assert.equal(wholes(), 0)
  await run(pool, sql`delete from ip_policies where id = ${policy}`)
  assert.equal((await compile(pool, policy, versions.current)).value, null)
  assert.equal(versions.bytes(), 0, 'nothing is kept of a policy that is gone')
})

test('the list of rules is sent with policies of which a rule expires, and is continued, too', async () => {
  const policy = await newPolicy()
  const versions = createPolicyVersions(64 * 1024 * 1024)
  await versions.fromRules(pool, accountId, policy, Date.now())
  const { db, wholes } = counting()
  const published = async () => {
    const record = await compile(db, policy, versions.current)
    assert.deepEqual(record, await compile(pool, policy))
    return record
  }
  assert.equal('expiring' in (await published()), false, 'other records stay as they are')
  await add(policy, '192.0.2.1/32', '2100-01-01T00:00:00Z')
  assert.equal((await published()).expiring?.at, Date.parse('2100-01-01T00:00:00Z'))
  assert.equal(wholes(), 1, 'the first one needs all rules')
  await add(policy, '10.0.1.0/24')
  await add(policy, '2001:db8::/120', '2099-01-01T00:00:00.5Z')
  await add(policy, '10.0.2.0/24', '2101-01-01T00:00:00Z')
  assert.equal((await published()).expiring?.at, Date.parse('2099-01-01T00:00:00.5Z'))
  const later = Date.parse('2100-01-01T00:00:00Z')
  const known = await versions.current(db, accountId, policy, later)
  const whole = await compiled(pool, accountId, policy, later)
  assert.deepEqual([known?.ruleList, known?.policy.validUntil], [whole?.ruleList, Date.parse('2101-01-01T00:00:00Z')])
  const none = await versions.current(db, accountId, policy, Date.parse('2101-01-01T00:00:00Z'))
  assert.equal(none && 'ruleList' in none, false)
  assert.equal(wholes(), 1)
})

test('a publisher that takes over, or fell behind, compiles from all rules', async () => {
  const policy = await newPolicy()
  await add(policy, '192.0.2.1/32')
  const successor = createPolicyVersions(64 * 1024 * 1024)
  assert.deepEqual(await compile(pool, policy, successor.current), await compile(pool, policy))
  for (let index = 0; index < 101; index++) await add(policy, `198.51.100.${index}/32`)
  assert.deepEqual(await compile(pool, policy, successor.current), await compile(pool, policy))
})

test('comparing with the bucket replaces a version, so that a wrong one does not stay', async () => {
  const policy = await newPolicy()
  const versions = createPolicyVersions(64 * 1024 * 1024)
  await versions.fromRules(pool, accountId, policy, Date.now())
  // Behind our back: no revision says so.
  await run(pool, sql`delete from ip_policy_rules where ip_policy_id = ${policy} and cidr = '10.0.0.2'`)
  assert.notDeepEqual(await compile(pool, policy, versions.current), await compile(pool, policy))
  await versions.fromRules(pool, accountId, policy, Date.now())
  assert.deepEqual(await compile(pool, policy, versions.current), await compile(pool, policy))
})

test('versions take no more memory than they may', async () => {
  const bound = 5 * 1024 * 1024
  const versions = createPolicyVersions(bound)
  const policies = await Promise.all([newPolicy(), newPolicy(), newPolicy(), newPolicy(100)])
  for (const policy of policies) {
    await versions.fromRules(pool, accountId, policy, Date.now())
    assert.ok(versions.bytes() <= bound, `${versions.bytes()}`)
  }
  assert.ok(versions.bytes() > bound / 3)
  const { db, wholes } = counting()
  await compile(db, policies[2] as Uuid, versions.current)
  assert.equal(wholes(), 0, 'the last one is there')
  await compile(db, policies[0] as Uuid, versions.current)
  assert.equal(wholes(), 1, 'the first one had to go')
})
