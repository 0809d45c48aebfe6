import { type Db, one, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { giveWay } from '../../kernel/give_way.ts'
import { type Id, newUuid, toUuid } from '../../kernel/ids.ts'
import { sliceSize } from './rule_set.ts'
import type { SentRule } from './rule_text.ts'

const batchSize = 5_000

/** Puts the new rules where the database can compare them with the present ones. */
export async function sendRules(tx: Db, rules: readonly SentRule[]): Promise<void> {
  // Its keys bound every plan: one that expects a few rules and loops over 100,000 then looks each of them up, instead of
  // reading all of the others each time. Planners know little of an account's first large policy (docs/adr/0038).
  await run(
    tx,
    sql`create temporary table sent_rules
        (place int primary key, id uuid, cidr cidr unique, action text, description text, metadata text,
         expires_at timestamptz(3), keeps_metadata boolean) on commit drop`,
  )
  for (let start = 0; start < rules.length; start += sliceSize) {
    const batch = rules.slice(start, start + sliceSize)
    await giveWay()
    await run(
      tx,
      sql`
      insert into sent_rules
      select * from unnest(
        ${batch.map((_, index) => start + index)}::int[], ${batch.map(() => newUuid())}::uuid[],
        ${batch.map((rule) => rule.cidr)}::cidr[], ${batch.map((rule) => rule.action)}::text[],
        ${batch.map((rule) => rule.description)}::text[], ${batch.map((rule) => rule.metadata)}::text[],
        ${batch.map((rule) => rule.expires_at)}::timestamptz[], ${batch.map((rule) => rule.keepsMetadata)}::boolean[])`,
    )
  }
  await run(tx, sql`analyze sent_rules`)
}

type Counts = { rules: number; added: number; changed: number; removed: number }

/** Rules that stay keep their id and creation time: only what differs is written, and later sent to edges. */
export async function replaceRules(tx: Db, { accountId }: Caller, policyId: Id<'ipp'>, rules: number): Promise<Counts> {
  const policy = toUuid(policyId)
  const inPolicy = sql`r.account_id = ${accountId} and r.ip_policy_id = ${policy}`
  await run(
    tx,
    sql`
    update sent_rules s set metadata = r.metadata from ip_policy_rules r
    where ${inPolicy} and r.metadata is not null and r.cidr = s.cidr and r.action = s.action and s.keeps_metadata`,
  )
  const { count: removed } = await one<{ count: number }>(
    tx,
    sql`
    with removed as (
      delete from ip_policy_rules r
      where ${inPolicy} and not exists (select from sent_rules s where s.cidr = r.cidr and s.action = r.action)
      returning 1)
    select count(*) from removed`,
  )
  // What stays as it is must not be touched: an upsert that changes nothing still locks and so writes every row.
  await run(
    tx,
    sql`
    delete from sent_rules s using ip_policy_rules r
    where ${inPolicy} and r.cidr = s.cidr
      and (r.description, r.metadata, r.expires_at) is not distinct from (s.description, s.metadata, s.expires_at)`,
  )
  const counts = { rules, added: 0, changed: 0, removed }
  // In batches: all at once took 2.5 s, half of what a statement may take, and on a busy machine more than that.
  for (let start = 0; start < rules; start += batchSize) {
    const { added, changed } = await one<{ added: number; changed: number }>(
      tx,
      sql`
      with written as (
        insert into ip_policy_rules as r (account_id, id, ip_policy_id, cidr, action, description, metadata, expires_at)
        select ${accountId}, id, ${policy}, cidr, action, description, metadata, expires_at from sent_rules
        where place >= ${start} and place < ${start + batchSize} order by place
        on conflict on constraint ip_policy_rules_cidr_unique do update
          set description = excluded.description, metadata = excluded.metadata, expires_at = excluded.expires_at
        returning (xmax = 0) as is_new)
      select count(*) filter (where is_new) as added, count(*) filter (where not is_new) as changed from written`,
    )
    counts.added += added
    counts.changed += changed
  }
  return counts
}
