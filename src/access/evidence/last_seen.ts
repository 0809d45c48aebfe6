import { type Db, one } from '../../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { type Uuid, uuidOfHex } from '../../kernel/ids.ts'
import { type Address, compareAddresses } from '../../kernel/ip/address.ts'
import type { RestrictionOutline, RestrictionType } from '../policies.ts'
import { addressesOf, momentAt } from './bytes.ts'
import type { Outcome } from './counts.ts'

/** An address, the time in milliseconds when it last came or was refused, and whether it was ever let in. */
export type LastSeen = { readonly address: Address; readonly at: number; readonly letIn: boolean }
export type SeenAtModule = LastSeen & { readonly edgeId: Uuid }

const hourMs = 60 * 60 * 1_000
/** Counts are hourly, so the partial hour in which the period begins is excluded. */
const firstHour = (since: number): string => rfc3339(Math.ceil(since / hourMs) * hourMs)

/** PostgreSQL caches a plan for each number of merged lists, and a plan for hundreds of lists takes megabytes. */
const listsAtOnce = 17

/** Addresses that restrictions of this type let in, refused or warned of: each once, latest first. */
export async function listLastSeen(
  db: Db,
  { accountId }: Pick<Caller, 'accountId'>,
  type: RestrictionType,
  restrictions: readonly Pick<RestrictionOutline, 'id' | 'type'>[],
  since: number,
  limit: number,
): Promise<LastSeen[]> {
  // Each list is sorted by its own index, so PostgreSQL reads only the rows that it merges.
  const letIn = sql`(
    select ip as source_ip, last_seen_at as seen_at, true as let_in from seen_addresses
    where account_id = ${accountId} and type = ${type} and last_seen_at >= ${rfc3339(since)}
    order by last_seen_at desc fetch first (${limit}) rows with ties)`
  const letInByEdges = sql`(
    select ip as source_ip, allowed_at as seen_at, true as let_in from address_outcomes
    where account_id = ${accountId} and type = 'endpoints' and allowed_at >= ${rfc3339(since)}
    order by allowed_at desc fetch first (${limit}) rows with ties)`
  const counted = (id: Uuid, outcome: Outcome) => sql`(
    select source_ip, last_at as seen_at, false as let_in from ip_restriction_addresses
    where account_id = ${accountId} and ip_restriction_id = ${id} and outcome = ${outcome}
      and last_at >= ${firstHour(since)}
    order by last_at desc fetch first (${limit}) rows with ties)`
  const ids = restrictions.filter((each) => each.type === type).map(({ id }) => id)
  const lists = [
    type === 'endpoints' ? letInByEdges : letIn,
    ...ids.flatMap((id) => [counted(id, 'refused'), counted(id, 'warned')]),
  ]
  let latest = await mergeLatest(db, lists.slice(0, listsAtOnce), limit)
  for (let from = listsAtOnce; from < lists.length; from += listsAtOnce) {
    const further = await mergeLatest(db, lists.slice(from, from + listsAtOnce), limit)
    latest = eachOnce([...latest, ...further]).slice(0, limit)
  }
  return latest
}

/** Merges the latest addresses of several lists. Few addresses are in more than one; otherwise it reads more rows. */
async function mergeLatest(db: Db, lists: readonly SqlFragment[], limit: number): Promise<LastSeen[]> {
  const all = lists.reduce((some, list) => sql`${some} union all ${list}`)
  for (let rows = Math.ceil(limit * 1.25); ; rows *= 4) {
    const { read } = await readLatest(db, all, rows)
    const latest = eachOnce(read)
    if (latest.length >= limit || read.length < rows) return latest.slice(0, limit)
  }
}

/** Addresses seen at modules that attach the policy: each once per edge or route. */
export async function listLastSeenAtModules(
  db: Db,
  { accountId }: Pick<Caller, 'accountId'>,
  policyId: Uuid,
  since: number,
  limit: number,
): Promise<SeenAtModule[]> {
  const latest = await readLatest(
    db,
    sql`
    select a.source_ip, a.last_at as seen_at, a.let_in, p.edge_id
    from edge_module_policies p
      join edge_modules m on m.account_id = p.account_id and m.edge_id = p.edge_id and m.module = p.module
      cross join lateral (
        (select source_ip, last_at, false as let_in from edge_addresses
        where account_id = ${accountId} and edge_id = p.edge_id and last_at >= ${firstHour(since)}
        order by last_at desc fetch first (${limit}) rows with ties)
        union all
        (select ip, allowed_at, true from address_outcomes
        where account_id = ${accountId} and type = 'endpoints' and target_id = p.edge_id
          and allowed_at >= ${rfc3339(since)}
        order by allowed_at desc fetch first (${limit}) rows with ties)) a
    where p.account_id = ${accountId} and p.ip_policy_id = ${policyId} and p.module = 'ip_restriction' and m.enabled`,
    limit,
    sql`, string_agg(uuid_send(edge_id), ''::bytea) as edges`,
  )
  return eachOnceAtEach(latest, limit)
}

function eachOnceAtEach({ read, edges }: Awaited<ReturnType<typeof readLatest>>, limit: number): SeenAtModule[] {
  const seen = read.map((each, index) => ({
    ...each,
    edgeId: uuidOfHex(edges.toString('hex', index * 16, index * 16 + 16)),
  }))
  return [...Map.groupBy(seen, ({ edgeId }) => edgeId).values()]
    .flatMap((atOne) => eachOnce(atOne))
    .sort((a, b) => latestFirst(a, b) || (a.edgeId < b.edgeId ? -1 : 1))
    .slice(0, limit)
}

/** Addresses seen at these TCP edges and routes, with any module or none. */
export async function listLastSeenAt(
  db: Db,
  { accountId }: Pick<Caller, 'accountId'>,
  targets: readonly Uuid[],
  since: number,
  limit: number,
): Promise<SeenAtModule[]> {
  return eachOnceAtEach(
    await readLatest(
      db,
      sql`
      select a.source_ip, a.seen_at, a.let_in, target.id as edge_id
      from unnest(${targets}::uuid[]) as target (id) cross join lateral (
        (select source_ip, last_at as seen_at, false as let_in from edge_addresses
        where account_id = ${accountId} and edge_id = target.id and last_at >= ${firstHour(since)}
        order by last_at desc fetch first (${limit}) rows with ties)
        union all
        (select ip, allowed_at, true from address_outcomes
        where account_id = ${accountId} and type = 'endpoints' and target_id = target.id
          and allowed_at >= ${rfc3339(since)}
        order by allowed_at desc fetch first (${limit}) rows with ties)) a`,
      limit,
      sql`, string_agg(uuid_send(edge_id), ''::bytea) as edges`,
    ),
    limit,
  )
}

type Bytes = { ips: Buffer; times: Buffer; flags: Buffer; edges: Buffer }
/** The sums of zero rows are null. */
const none: Bytes = { ips: Buffer.alloc(0), times: Buffer.alloc(0), flags: Buffer.alloc(0), edges: Buffer.alloc(0) }

/**
 * The latest rows, including all ties with the last one. Returns them as one row of bytes: the driver is slow with many
 * rows, and PostgreSQL with formatting addresses and times as text.
 */
async function readLatest(db: Db, rows: SqlFragment, limit: number, edgeIds: SqlFragment = nothing) {
  const bytes = await one<Bytes | { ips: null }>(
    db,
    sql`
    select string_agg(inet_send(source_ip), ''::bytea) as ips, string_agg(timestamptz_send(seen_at), ''::bytea) as times,
      string_agg(boolsend(let_in), ''::bytea) as flags ${edgeIds}
    from (select * from (${rows}) seen order by seen_at desc fetch first (${limit}) rows with ties) latest`,
  )
  const { ips, times, flags, edges } = bytes.ips ? bytes : none
  const read = addressesOf(ips).map(
    (address, index): LastSeen => ({ address, at: momentAt(times, index), letIn: flags[index] === 1 }),
  )
  return { read, edges }
}

const latestFirst = (a: LastSeen, b: LastSeen): number => b.at - a.at || compareAddresses(a.address, b.address)

/** Latest first; keeps the latest sighting of each address. */
function eachOnce<Seen extends LastSeen>(sightings: Seen[]): Seen[] {
  const known = new Map<number | string, Seen>()
  for (const seen of sightings.sort(latestFirst)) {
    const { address } = seen
    const key = address.family === 4 ? address.value : `${address.w0} ${address.w1} ${address.w2} ${address.w3}`
    const latest = known.get(key)
    if (!latest) known.set(key, seen)
    else if (seen.letIn && !latest.letIn) known.set(key, { ...latest, letIn: true })
  }
  return [...known.values()]
}
