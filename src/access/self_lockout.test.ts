import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newDatabase } from '../../test/harness/control_plane.ts'
import { printed, sized } from '../../test/harness/thorough.ts'
import { type Db, one, openPool, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { transaction } from '../db/transaction.ts'
import { newUuid } from '../kernel/ids.ts'
import { parseAddress } from '../kernel/ip/address.ts'
import { loadEnforcedAbout } from './policies.ts'
import { decideEach, refusalIn } from './refusal.ts'

const pool = openPool(
  { url: await newDatabase(), poolSize: 4, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 },
  () => {},
)
after(() => pool.end())

/** What a planner takes for the usual account: one policy with a few rules. */
async function fillWithSmallPolicies(rules: number): Promise<void> {
  await run(
    pool,
    sql`insert into accounts (id, name) select gen_random_uuid(), 'small ' || n from generate_series(1, 1000) n`,
  )
  await run(
    pool,
    sql`insert into ip_policies (account_id, id) select id, gen_random_uuid() from accounts where name like 'small %'`,
  )
  await run(
    pool,
    sql`
    insert into ip_policy_rules (account_id, id, ip_policy_id, cidr, action)
    select account_id, gen_random_uuid(), id, ('10.0.0.0'::inet + n)::cidr, 'allow'
    from ip_policies, generate_series(1, ${rules}) n`,
  )
  await run(pool, sql`analyze ip_policy_rules`)
}

const rulesRead = async (tx: Db): Promise<number> =>
  (
    await one<{ rows: number }>(
      tx,
      sql`
      select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) as rows
      from pg_stat_xact_user_tables where relname = 'ip_policy_rules'`,
    )
  ).rows

const rules = sized(20_000, 100_000)
const lastOffset = 2 * (rules - 1)
const last = `20.${lastOffset >> 16}.${(lastOffset >> 8) & 255}.${lastOffset & 255}`
test(`among ${printed(rules)} rules, only those that match the address are read, even if the planner expects otherwise`, async () => {
  await fillWithSmallPolicies(3)
  const [accountId, restriction, policy] = [newUuid(), newUuid(), newUuid()]
  await run(pool, sql`insert into accounts (id, name) values (${accountId}, 'large')`)
  await run(pool, sql`insert into ip_policies (account_id, id) values (${accountId}, ${policy})`)
  await run(
    pool,
    sql`insert into ip_restrictions (account_id, id, type, enforced) values (${accountId}, ${restriction}, 'api', true)`,
  )
  await run(pool, sql`insert into ip_restriction_policies values (${accountId}, ${restriction}, ${policy}, 0)`)
  const add = (tx: Db) =>
    run(
      tx,
      sql`
      insert into ip_policy_rules (account_id, id, ip_policy_id, cidr, action)
      select ${accountId}, gen_random_uuid(), ${policy}, ('20.0.0.0'::inet + 2 * (n - 1))::cidr, 'allow'
      from generate_series(1, ${rules}) n`,
    )
  const check = async (tx: Db) => {
    // A connection keeps a statement's plan from the sixth execution on: that one must be as good.
    for (let round = 0; round < 12; round++)
      for (const [ip, isRefused] of [
        ['20.0.0.2', false],
        ['20.0.0.3', true],
        [last, false],
        ['2001:db8::1', true],
      ] as const) {
        const before = await rulesRead(tx)
        const address = parseAddress(ip)
        const deciders = await loadEnforcedAbout(tx, accountId, ['api'], address, Date.now())
        const read = (await rulesRead(tx)) - before
        assert.equal(refusalIn(decideEach(deciders, address)) !== undefined, isRefused, ip)
        assert.ok(read <= 2, `${read} rules were read for ${ip}`)
      }
  }
  const undone = new Error('undone')
  const inOneTransaction = transaction(pool, async (tx) => {
    await add(tx)
    await check(tx)
    throw undone
  })
  await assert.rejects(inOneTransaction, undone)
  await add(pool)
  await transaction(pool, check)
  await run(pool, sql`analyze ip_policy_rules`)
  await transaction(pool, check)
})
