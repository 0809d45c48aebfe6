import { deleteInBatches } from '../../db/batches.ts'
import { type Db, many, run } from '../../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'

/** Traffic types whose addresses are recorded. Agents only ask for decisions, so they are never refused here. */
export const outcomeTypes = ['dashboard', 'api', 'endpoints'] as const
export type OutcomeType = (typeof outcomeTypes)[number]

/** Stands for the edge or route in rows of the API and the dashboard, which have none. */
export const noTarget = '00000000-0000-0000-0000-000000000000' as Uuid

/** Edge nodes report the edge or route only; the database knows its account. */
export type AddressOutcome = {
  outcome: 'allowed' | 'refused'
  ip: string
  at: number
} & ({ accountId: Uuid; type: 'dashboard' | 'api' } | { targetId: Uuid; node?: string })

/** An IPv6 customer has 2^64 addresses: without a bound one account could fill the table. */
export const keptPerAccount = 10_000
/** Eight days cover a full week, asked for at any time of day. */
export const outcomeDays = 8

/** Sorted: two processes that write the same rows must lock them in the same order. */
function sent(outcomes: readonly AddressOutcome[]): SqlFragment {
  const column = <T>(of: (outcome: AddressOutcome) => T) => outcomes.map(of)
  return sql`
    select coalesce(s.account_id, e.account_id) as account_id, s.type, coalesce(s.target_id, ${noTarget}) as target_id, s.ip, s.at,
      s.node
    from unnest(
      ${column((each) => ('accountId' in each ? each.accountId : null))}::uuid[],
      ${column((each) => ('accountId' in each ? each.type : 'endpoints'))}::text[],
      ${column((each) => ('targetId' in each ? each.targetId : null))}::uuid[],
      ${column(({ ip }) => ip)}::inet[], ${column(({ at }) => rfc3339(at))}::timestamptz[],
      ${column((each) => ('targetId' in each ? (each.node ?? null) : null))}::text[]
    ) as s (account_id, type, target_id, ip, at, node)
      left join edges e on e.id = s.target_id and e.kind <> 'https'
    where coalesce(s.account_id, e.account_id) is not null
    order by 1, 2, 3, 4`
}

/** Writes one row per address and outcome. Refusals of addresses that were never let in are dropped. */
export async function writeOutcomes(db: Db, outcomes: readonly AddressOutcome[]): Promise<void> {
  const allowed = outcomes.filter(({ outcome }) => outcome === 'allowed')
  const refused = outcomes.filter(({ outcome }) => outcome === 'refused')
  if (allowed.length) {
    const written = await many<{ account_id: Uuid; type: OutcomeType }>(
      db,
      sql`
      with written as (
        insert into address_outcomes as known (account_id, type, target_id, ip, allowed_at)
        select account_id, type, target_id, ip, at from (${sent(allowed)}) s order by 1, 2, 3, 4
        on conflict (account_id, type, target_id, ip) do update set allowed_at = excluded.allowed_at
          where excluded.allowed_at > known.allowed_at
        returning account_id, type, xmax = 0 as is_new)
      select distinct account_id, type from written where is_new`,
    )
    if (written.length) await deleteExcess(db, written)
  }
  if (refused.length)
    await run(
      db,
      sql`
      with held as (
        select known.account_id, known.type, known.target_id, known.ip, s.at, s.node,
          known.refused_at is null or known.refused_at <= known.allowed_at as is_new
        from (${sent(refused)}) s join address_outcomes known on known.account_id = s.account_id
          and known.type = s.type and known.target_id = s.target_id and known.ip = s.ip
        where known.refused_at is null or known.refused_at < s.at
        order by 1, 2, 3, 4
        for update of known)
      update address_outcomes known set refused_at = held.at,
        newly_refused_at = case when held.is_new then now() else known.newly_refused_at end,
        newly_refused_by = case when held.is_new then held.node else known.newly_refused_by end
      from held
      where known.account_id = held.account_id and known.type = held.type
        and known.target_id = held.target_id and known.ip = held.ip`,
    )
}

/** Deletes by ctid and skips rows that another process has locked; addSeenAddresses() says why. */
const deleteExcess = (db: Db, accounts: readonly { account_id: Uuid; type: OutcomeType }[]): Promise<void> =>
  run(
    db,
    sql`
    delete from address_outcomes where ctid = any(array(
      select ctid from address_outcomes where ctid = any(array(
        select excess.ctid
        from unnest(${accounts.map((each) => each.account_id)}::uuid[], ${accounts.map(({ type }) => type)}::text[])
            as a (account_id, type)
          cross join lateral (
            select o.ctid from address_outcomes o
            where o.account_id = a.account_id and o.type = a.type
            order by o.allowed_at desc
            offset ${keptPerAccount}
          ) as excess
      ))
      for update skip locked
    ))`,
  )

export const deleteOutcomesBefore = (db: Db, moment: number): Promise<number> =>
  deleteInBatches(db, sql`address_outcomes`, sql`allowed_at < ${rfc3339(moment)}`)

/** The longest time since an address was let in, and refused, for it to be listed. */
export const allowedWithinMs = 7 * 24 * 60 * 60 * 1_000
export const refusedWithinMs = 24 * 60 * 60 * 1_000

/** Position in the list, which starts with the latest refusal. */
export type OutcomePlace = { refused_at: string; type: OutcomeType; target_id: Uuid; ip: string }
export type OutcomeRow = OutcomePlace & { allowed_at: string }

/** Addresses that were refused after they had been let in. They may be allowed again by now; the caller checks. */
export function listRefusedAfterAllowed(
  db: Db,
  { accountId }: { accountId: Uuid },
  now: number,
  before: OutcomePlace | undefined,
  limit: number,
): Promise<OutcomeRow[]> {
  const rest = before
    ? sql`and (o.refused_at, o.type, o.target_id, o.ip) <
        (${before.refused_at}::timestamptz, ${before.type}, ${before.target_id}::uuid, ${before.ip}::inet)`
    : nothing
  return many<OutcomeRow>(
    db,
    // `order by` needs the inet column: the text of an address sorts differently.
    sql`
    select o.refused_at, o.type, o.target_id, host(o.ip) as ip, o.allowed_at from address_outcomes o
    where o.account_id = ${accountId} and o.refused_at > o.allowed_at
      and o.refused_at >= ${rfc3339(now - refusedWithinMs)} and o.allowed_at >= ${rfc3339(now - allowedWithinMs)} ${rest}
    order by o.refused_at desc, o.type desc, o.target_id desc, o.ip desc
    limit ${limit}`,
  )
}

/** How recently an address must have been let in to count against a change in progress. */
const letInLatelyMs = 24 * 60 * 60 * 1_000
/** Tolerance for node clocks that run ahead of ours. */
const aheadMs = 60_000
const mostNewlyRefused = 2_000

export type NewlyRefused = {
  target_id: Uuid
  is_route: boolean
  node: string
  addresses: string[]
  /** How many addresses the edge or route has let in lately, including these. */
  let_in: number
}

type Changes = { readonly accountId: Uuid; readonly firstGeneration: number; readonly keys: readonly string[] }

/**
 * Addresses that these nodes have refused for the first time since then, although they had been let in. Excludes those
 * refused by a deny rule for exactly that address that is not among the changes: it reached all nodes at once. A deny
 * rule for a range excuses no address, because it may be a mistake that was reverted and made again.
 */
export const newlyRefusedSince = (
  db: Db,
  { accountId, firstGeneration, keys }: Changes,
  nodes: readonly string[],
  since: number,
): Promise<NewlyRefused[]> =>
  many<NewlyRefused>(
    db,
    sql`
    with refused as (
      select o.target_id, o.newly_refused_by as node, o.ip from address_outcomes o
      where o.account_id = ${accountId} and o.refused_at > o.allowed_at and o.refused_at >= ${rfc3339(since - aheadMs)}
        and o.type = 'endpoints' and o.newly_refused_at >= ${rfc3339(since)} and o.newly_refused_by = any(${nodes}::text[])
        and o.allowed_at >= ${rfc3339(since - letInLatelyMs)}
        and not exists (
          select from outbox c where c.account_id = o.account_id and c.denies = o.ip::cidr
            and (c.generation < ${firstGeneration} or c.key <> all(${keys}::text[])))
      limit ${mostNewlyRefused})
    select r.target_id, e.kind <> 'tcp' as is_route, r.node, array_agg(host(r.ip) order by r.ip) as addresses, l.let_in
    from refused r join edges e on e.id = r.target_id cross join lateral (
      select count(*) as let_in from address_outcomes o
      where o.account_id = ${accountId} and o.type = 'endpoints' and o.target_id = r.target_id
        and o.allowed_at >= ${rfc3339(since - letInLatelyMs)}) l
    group by r.target_id, e.kind, r.node, l.let_in`,
  )

/** Stops counting here. The figure feeds alerts, which do not justify reading a whole index. */
const mostCounted = 100_000

/** For the whole installation. Counts the last outcome of each address, so no decision is made again. */
export async function countRefusedAfterAllowed(db: Db, now: number): Promise<Record<OutcomeType, number>> {
  const rows = await many<{ type: OutcomeType; count: number }>(
    db,
    sql`
    select type, count(*) from (
      select type from address_outcomes
      where refused_at > allowed_at
        and refused_at >= ${rfc3339(now - refusedWithinMs)} and allowed_at >= ${rfc3339(now - allowedWithinMs)}
      order by refused_at desc
      limit ${mostCounted}) refused
    group by type`,
  )
  const counts = { dashboard: 0, api: 0, endpoints: 0 }
  for (const { type, count } of rows) counts[type] = count
  return counts
}
