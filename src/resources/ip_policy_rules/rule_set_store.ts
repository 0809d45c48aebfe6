import { forgetOldRuleSets, noteRules, type RuleSetChange } from '../../access/evidence/rule_set_changes.ts'
import { type Db, later, one, run } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import { giveWay } from '../../kernel/give_way.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { sliceSize } from './rule_set.ts'
import type { SentRule } from './rule_text.ts'

const batchSize = 5_000

/** Puts the new rules where the database can compare them with the present ones. */
export async function sendRules(tx: Db, rules: readonly SentRule[]): Promise<void> {
  await later(
    tx,
    sql`create temporary table sent_rules
        (place int, id uuid, cidr cidr, action text, description text, metadata text,
         expires_at timestamptz(3), keeps_metadata boolean) on commit drop`,
  )
  // One batch is under way while the next is written down.
  let sending: Promise<void> = Promise.resolve()
  for (let start = 0; start < rules.length; start += sliceSize) {
    const columns = columnsOf(rules.slice(start, start + sliceSize), start)
    await sending
    sending = run(tx, sql`insert into sent_rules select * from unnest(${columns})`)
    // Awaited above or below; until then a failure has a handler.
    sending.catch(() => {})
    await giveWay()
  }
  await sending
  // Its keys bound every plan: one that expects a few rules and loops over 100,000 then looks each of them up, instead of
  // reading all of the others each time. Planners know little of an account's first large policy (docs/adr/0038). At the
  // end, because to sort once takes a fraction of the time.
  await later(tx, sql`alter table sent_rules add primary key (place), add unique (cidr)`)
  await run(tx, sql`analyze sent_rules`)
}

const columnsOf = (batch: readonly SentRule[], start: number): SqlFragment =>
  sql`${batch.map((_, index) => start + index)}::int[], ${batch.map(() => newUuid())}::uuid[],
    ${batch.map((rule) => rule.cidr)}::cidr[], ${batch.map((rule) => rule.action)}::text[],
    ${batch.map((rule) => rule.description)}::text[], ${batch.map((rule) => rule.metadata)}::text[],
    ${batch.map((rule) => rule.expires_at)}::timestamptz[], ${batch.map((rule) => rule.keepsMetadata)}::boolean[]`

type Counts = { rules: number; added: number; changed: number; removed: number }
/** `cidrs`: of all rules that were added, changed or removed, if they are few. */
type Replaced = { counts: Counts; cidrs: string[] | undefined }

/** Beyond that, whoever has compiled the policy has to compile all of it again anyway. */
const maxNoted = 500

/** Rules that stay keep their id and creation time: only what differs is written, and later sent to edges. */
export async function replaceRules(
  tx: Db,
  change: RuleSetChange,
  policyId: Id<'ipp'>,
  rules: number,
): Promise<Replaced> {
  const { accountId } = change
  const policy = toUuid(policyId)
  const inPolicy = sql`r.account_id = ${accountId} and r.ip_policy_id = ${policy}`
  await run(
    tx,
    sql`
    update sent_rules s set metadata = r.metadata from ip_policy_rules r
    where ${inPolicy} and r.metadata is not null and r.cidr = s.cidr and r.action = s.action and s.keeps_metadata`,
  )
  const removed = await one<{ count: number; cidrs: string[] }>(
    tx,
    sql`
    with removed as (
      delete from ip_policy_rules r
      where ${inPolicy} and not exists (select from sent_rules s where s.cidr = r.cidr and s.action = r.action)
      returning r.cidr, r.action, r.expires_at),
    noted as (${noteRules(change, 'removed', sql`removed`)})
    select count(*), array(select cidr::text from removed limit ${maxNoted + 1}) as cidrs from removed`,
  )
  // What stays as it is must not be touched: an upsert that changes nothing still locks and so writes every row.
  await run(
    tx,
    sql`
    delete from sent_rules s using ip_policy_rules r
    where ${inPolicy} and r.cidr = s.cidr
      and (r.description, r.metadata, r.expires_at) is not distinct from (s.description, s.metadata, s.expires_at)`,
  )
  const replaced = sql`sent_rules s join ip_policy_rules r on ${inPolicy} and r.cidr = s.cidr`
  await run(tx, noteRules(change, 'replaced', sql`(select r.cidr, r.action, r.expires_at from ${replaced}) replaced`))
  await run(tx, noteRules(change, 'added', sql`sent_rules`))
  await forgetOldRuleSets(tx, change)
  const written = await one<{ cidrs: string[] }>(
    tx,
    sql`select array(select cidr::text from sent_rules limit ${maxNoted + 1}) as cidrs`,
  )
  const changed = await upsertSent(tx, accountId, policy, written.cidrs.length === 0 ? 0 : rules)
  const cidrs = [...new Set([...removed.cidrs, ...written.cidrs])]
  return {
    counts: { rules, ...changed, removed: removed.count },
    cidrs: cidrs.length > maxNoted ? undefined : cidrs,
  }
}

/** In batches: all at once took 2.5 s, half of what a statement may take, and on a busy machine more than that. */
async function upsertSent(tx: Db, accountId: Uuid, policy: Uuid, places: number) {
  const counts = { added: 0, changed: 0 }
  for (let start = 0; start < places; start += batchSize) {
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
