import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newDatabase } from '../../test/harness/control_plane.ts'
import { type DbPool, many, openPool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { newUuid, type Uuid } from '../kernel/ids.ts'
import { type Address, parseAddress } from '../kernel/ip/address.ts'
import { createEvaluate } from './decisions.ts'

const pool = openPool(
  { url: await newDatabase(), poolSize: 4, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 },
  () => {},
)
after(() => pool.end())

/** The pool, with a door that loads of one policy's rules wait at. */
function withDoor(policy: Uuid) {
  const door = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  const db: DbPool = {
    ...pool,
    async query(statement) {
      if (statement.text.includes('ip_policy_rules') && statement.values?.includes(policy)) {
        reached.resolve()
        await door.promise
      }
      return pool.query(statement)
    },
  }
  return { db, reached: reached.promise, open: door.resolve }
}

async function newRestriction(policyCount: number) {
  const [accountId, restriction] = [newUuid(), newUuid()]
  const policies = Array.from({ length: policyCount }, () => newUuid())
  await many(pool, sql`insert into accounts (id, name) values (${accountId}, ${accountId})`)
  await many(
    pool,
    sql`insert into ip_restrictions (account_id, id, type, enforced) values (${accountId}, ${restriction}, 'api', true)`,
  )
  for (const [position, policy] of policies.entries()) {
    await many(pool, sql`insert into ip_policies (account_id, id) values (${accountId}, ${policy})`)
    await many(
      pool,
      sql`insert into ip_restriction_policies values (${accountId}, ${restriction}, ${policy}, ${position})`,
    )
  }
  /** What every change does: the policy's and the account's revision go up with it. */
  const change = async (policy: Uuid, make: () => Promise<unknown>) => {
    await make()
    await many(pool, sql`update ip_policies set revision = revision + 1 where id = ${policy}`)
    await many(pool, sql`update accounts set policy_revision = policy_revision + 1 where id = ${accountId}`)
  }
  const add = (policy: Uuid, action: string, cidr: string, expires: string | null = null) =>
    change(policy, () =>
      many(
        pool,
        sql`
        insert into ip_policy_rules (account_id, id, ip_policy_id, action, cidr, expires_at)
        values (${accountId}, ${newUuid()}, ${policy}, ${action}, ${cidr}, ${expires})`,
      ),
    )
  const remove = (policy: Uuid, cidr: string) =>
    change(policy, () => many(pool, sql`delete from ip_policy_rules where ip_policy_id = ${policy} and cidr = ${cidr}`))
  return { accountId, restriction, policies, add, remove }
}

const guest = parseAddress('10.1.0.1') as Address
const cacheBytes = 1024 * 1024

test('a request does not apply a rule that was deleted while the policy was loading', async () => {
  const { accountId, policies, add } = await newRestriction(1)
  const policy = policies[0] as Uuid
  const expires = Date.now() + 60_000
  await add(policy, 'allow', '10.0.0.0/8', new Date(expires).toISOString())
  const { db, reached, open } = withDoor(policy)
  let now = expires - 1
  const evaluate = createEvaluate(db, () => now, cacheBytes)
  const account = { accountId, policyRevision: 1 }
  const first = evaluate(account, 'api', guest)
  await reached
  now = expires
  const second = evaluate(account, 'api', guest)
  await new Promise(setImmediate)
  open()
  assert.deepEqual(
    (await Promise.all([first, second])).map(([decision]) => decision?.allowed),
    [false, false],
  )
})

test('a decision uses the state of one moment, not one policy from before a change and one from after', async () => {
  const { accountId, policies, add, remove } = await newRestriction(2)
  const [first, second] = policies as [Uuid, Uuid]
  await add(first, 'allow', '10.0.0.0/8')
  await add(second, 'deny', '10.1.0.0/16')
  const { db, reached, open } = withDoor(second)
  const evaluate = createEvaluate(db, Date.now, cacheBytes)
  const judging = evaluate({ accountId, policyRevision: 2 }, 'api', guest)
  await reached
  // The deny moves from one policy to the other. At no moment was the guest let in.
  await add(first, 'deny', '10.1.0.0/16')
  await remove(second, '10.1.0.0/16')
  open()
  assert.equal((await judging)[0]?.allowed, false)
})

test('a policy detached and deleted during a decision is not skipped', async () => {
  const { accountId, restriction, policies, add } = await newRestriction(2)
  const [first, second] = policies as [Uuid, Uuid]
  await add(first, 'allow', '10.0.0.0/8')
  await add(second, 'deny', '10.1.0.0/16')
  const { db, reached, open } = withDoor(second)
  const evaluate = createEvaluate(db, Date.now, cacheBytes)
  const judging = evaluate({ accountId, policyRevision: 2 }, 'api', guest)
  await reached
  await add(first, 'deny', '10.1.0.0/16')
  await many(
    pool,
    sql`delete from ip_restriction_policies where ip_restriction_id = ${restriction} and ip_policy_id = ${second}`,
  )
  await many(pool, sql`update accounts set policy_revision = policy_revision + 1 where id = ${accountId}`)
  await many(pool, sql`delete from ip_policies where id = ${second}`)
  open()
  assert.equal((await judging)[0]?.allowed, false)
})
