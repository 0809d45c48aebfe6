import { type DbPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'

/** What a planner takes for the usual account: ten rules in one policy. */
export async function addSmallAccounts(db: DbPool): Promise<void> {
  await run(
    db,
    sql`insert into accounts (id, name) select gen_random_uuid(), 'small ' || n from generate_series(1, 1000) n`,
  )
  await run(
    db,
    sql`insert into ip_policies (account_id, id) select id, gen_random_uuid() from accounts where name like 'small %'`,
  )
  await run(
    db,
    sql`
    insert into ip_policy_rules (account_id, id, ip_policy_id, cidr, action)
    select account_id, gen_random_uuid(), id, ('10.0.0.0'::inet + n)::cidr, 'allow'
    from ip_policies, generate_series(1, 10) n`,
  )
  await db.query({ text: 'analyze' })
}
