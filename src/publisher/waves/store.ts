import { type Db, many, one, run } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import type { RecordKey } from '../../distribution/records.ts'
import { newId, newUuid, toId, type Uuid } from '../../kernel/ids.ts'
import type { Cell } from '../../operations/placement.ts'
import type { HeldRecords, Holding } from '../database.ts'
import {
  type Contents,
  goesThroughWaves,
  type HeldKey,
  type Joining,
  kindsWithoutWaves,
  type OpenRollout,
  type Previous,
  type Unassigned,
} from './rollout.ts'

export const beginRollouts = (db: Db, cell: Cell): Promise<void> =>
  run(db, sql`update publisher_state set classified = greatest(classified, cursor) where cell_id = ${cell.id}`)

export const countOpenRollouts = (db: Db): Promise<{ watching: number; halted: number; overdue_seconds: number }> =>
  one(
    db,
    sql`
    select count(*) filter (where r.state = 'watching') as watching, count(*) filter (where r.state = 'halted') as halted,
      -- One that waits for another of its account began its watch no earlier than that one ended.
      coalesce(greatest(0, extract(epoch from max(now() - coalesce(r.applied_at, r.moved_at) - c.soak_seconds * interval '1 second')
        filter (where r.state = 'watching' and not exists (
          select from rollouts o
          where o.cell_id = r.cell_id and o.account_id = r.account_id and o.ended_at is null and o.id < r.id)))), 0)::float8
        as overdue_seconds
    from rollouts r join cells c on c.id = r.cell_id where r.ended_at is null`,
  )

type ChangeRow = {
  version: number
  generation: number | null
  account_id: Uuid
  key: RecordKey
  urgent: string | null
  isHarmless: boolean
}
type RolloutRow = {
  id: number
  account_id: Uuid
  reached: number
  open_until: number
  is_urgent: boolean
  keys: RecordKey[]
}

/**
 * At most one in a hundred of the addresses that the account allowed within the last day. The judge ignores a single
 * address anyway. A range without such evidence is not harmless, nor is a very large one.
 */
const refusesHardlyAny = sql`(
  o.denies is not null and (masklen(o.denies) = case family(o.denies) when 4 then 32 else 128 end
    or masklen(o.denies) >= case family(o.denies) when 4 then 16 else 32 end and (
      select count(*) >= 100 and count(*) filter (where a.ip <<= o.denies) * 100 <= count(*)
      from address_outcomes a
      where a.account_id = o.account_id and a.type = 'endpoints' and a.allowed_at >= now() - interval '1 day')))`

export async function unassignedChanges(db: Db, cell: Cell, accounts: readonly Uuid[]): Promise<Unassigned> {
  // Reads the version first: data read later may be newer, which the write then detects and rejects.
  const rows = await many<ChangeRow>(
    db,
    sql`
    select s.rollouts_version as version, o.generation, o.account_id, o.key, o.urgent,
      ${refusesHardlyAny} as "isHarmless"
    from publisher_state s left join outbox o
      on o.generation > s.classified and o.cell_id is null and o.account_id = any(${accounts}::uuid[])
    where s.cell_id = ${cell.id}`,
  )
  const changes = rows.flatMap(({ version: _, generation, ...row }) =>
    generation !== null && goesThroughWaves(row.key) ? { generation, ...row } : [],
  )
  const version = rows[0]?.version ?? 0
  if (changes.length === 0) return { version, changes, open: [] }
  const open = await many<RolloutRow>(
    db,
    sql`
    select r.id, r.account_id, r.reached, r.open_until, r.is_urgent,
      array(select h.key from held_records h where h.rollout_id = r.id) as keys
    from rollouts r
    where r.cell_id = ${cell.id} and r.ended_at is null and r.account_id = any(${accounts}::uuid[]) order by r.id`,
  )
  return { version, changes, open: open.map(toOpenRollout) }
}

const toOpenRollout = ({ id, account_id, reached, open_until, is_urgent, keys }: RolloutRow): OpenRollout => ({
  id,
  accountId: account_id,
  reached,
  openUntil: open_until,
  isUrgent: is_urgent,
  keys: new Set(keys),
})

/** The event that tells the account of a new rollout. */
const startOf = ({ accountId, since, urgent }: Joining, { name }: Cell) => {
  const publicId = newUuid()
  const state = urgent === undefined ? { state: 'watching' } : { state: 'releasing', reason: urgent }
  const after = { cell: name, ...state, generation: since }
  return { accountId, publicId, event: newUuid(), operation: newId('op'), id: toId('ro', publicId), after }
}

/** One statement, because publishers of other cells and waves share the session. */
export async function holdRecords(
  db: Db,
  cell: Cell,
  { version, settled, joining, previous }: Holding,
): Promise<boolean> {
  const [grown, made] = [
    joining.filter(({ rollout }) => rollout !== undefined),
    joining.filter(({ rollout }) => rollout === undefined),
  ]
  const urgent = joining.filter((each) => each.urgent !== undefined)
  const starts = made.map((each) => startOf(each, cell))
  const held = joining.flatMap(({ rollout, accountId, keys }) => keys.map((key) => ({ rollout, accountId, key })))
  const { done } = await one<{ done: number }>(
    db,
    sql`
    with before as (select classified from publisher_state where cell_id = ${cell.id}),
    state as (
      update publisher_state set classified = greatest(classified, ${settled})
      where cell_id = ${cell.id} and rollouts_version = ${version} returning cell_id
    ),
    grown as (
      update rollouts r set open_until = greatest(r.open_until, g.open_until), applied_at = null,
        is_urgent = r.is_urgent or g.urgent is not null, reason = coalesce(g.urgent, r.reason)
      from state, unnest(
        ${grown.map(({ rollout }) => rollout ?? 0)}::bigint[], ${grown.map(({ openUntil }) => openUntil)}::bigint[],
        ${grown.map(({ urgent }) => urgent ?? null)}::text[]
      ) as g (id, open_until, urgent)
      where r.id = g.id
    ),
    hurried as (
      update rollouts r set is_urgent = true, reason = u.urgent
      from state, unnest(
        ${urgent.map(({ accountId }) => accountId)}::uuid[], ${urgent.map((each) => each.urgent ?? null)}::text[]
      ) as u (account_id, urgent)
      where r.cell_id = state.cell_id and r.account_id = u.account_id and r.ended_at is null and r.reached >= 0
        and r.id <> all(${grown.map(({ rollout }) => rollout ?? 0)}::bigint[])
    ),
    made as (
      insert into rollouts (cell_id, account_id, since, open_until, public_id, reason, is_urgent)
      select state.cell_id, m.*, m.reason is not null from state, unnest(
        ${made.map(({ accountId }) => accountId)}::uuid[], ${made.map(({ since }) => since)}::bigint[],
        ${made.map(({ openUntil }) => openUntil)}::bigint[], ${starts.map(({ publicId }) => publicId)}::uuid[],
        ${made.map(({ urgent }) => urgent ?? null)}::text[]) as m (account_id, since, open_until, public_id, reason)
      returning id, account_id
    ),
    told as (
      insert into audit_events (account_id, id, operation, operation_id, resource_id, after)
      select e.account_id, e.id, 'rollouts.start', e.operation_id, e.resource_id, e.after::jsonb from state, unnest(
        ${starts.map(({ accountId }) => accountId)}::uuid[], ${starts.map(({ event }) => event)}::uuid[],
        ${starts.map(({ operation }) => operation)}::text[], ${starts.map(({ id }) => id)}::text[],
        ${starts.map(({ after }) => JSON.stringify(after))}::text[]
      ) as e (account_id, id, operation_id, resource_id, after)
    ),
    changed as (
      insert into rollout_changes (rollout_id, operation_id)
      select distinct coalesce(j.rollout, made.id), o.operation_id
      from state cross join before cross join unnest(
        ${joining.map(({ rollout }) => rollout ?? null)}::bigint[], ${joining.map(({ accountId }) => accountId)}::uuid[],
        ${joining.map(({ openUntil }) => openUntil)}::bigint[]
      ) as j (rollout, account_id, open_until) left join made on made.account_id = j.account_id
        join outbox o on o.account_id = j.account_id and o.generation > before.classified and o.generation <= j.open_until
          and o.cell_id is null and o.operation_id is not null
          and split_part(o.key, '.', 1) <> all(${kindsWithoutWaves}::text[])
      on conflict do nothing
    ),
    kept as (
      insert into held_records (rollout_id, key, contents)
      select coalesce(h.rollout, made.id), h.key, h.contents
      from state, unnest(
        ${held.map(({ rollout }) => rollout ?? null)}::bigint[], ${held.map(({ accountId }) => accountId)}::uuid[],
        ${held.map(({ key }) => key)}::text[], ${held.map(({ key }) => textOf(previous.get(key)))}::text[]
      ) as h (rollout, account_id, key, contents) left join made on made.account_id = h.account_id
      on conflict do nothing
    )
    select count(*) as done from state`,
  )
  return done > 0
}

function textOf(previous: Previous | undefined): string | null {
  if (!previous || previous === 'unknown') return null
  return JSON.stringify({ ...previous, blobs: previous.blobs.map((blob) => blob.toString('base64')) })
}

function previousOf(text: string | null): Previous {
  if (text === null) return 'unknown'
  const { blobs, ...contents } = JSON.parse(text) as Omit<Contents, 'blobs'> & { blobs: string[] }
  return { ...contents, blobs: blobs.map((blob) => Buffer.from(blob, 'base64')) }
}

/** The first rollout that the wave lacks has the version from before all others. */
const heldIn = (cell: Cell, wave: number): SqlFragment => sql`
  held_records h join rollouts r on r.id = h.rollout_id
  where r.cell_id = ${cell.id} and r.ended_at is null and r.reached < ${wave}::int`

/** One statement, and so one snapshot: a change either belongs to a rollout or does not. */
export async function heldRecords(db: Db, cell: Cell, wave: number, keys: readonly RecordKey[]): Promise<HeldRecords> {
  const rows = await many<{ what: 'held' | 'changed' | 'lost'; key: RecordKey; contents: string | null }>(
    db,
    sql`
    (select distinct on (h.key) 'held' as what, h.key, h.contents from ${heldIn(cell, wave)} and h.key = any(${keys}::text[])
     order by h.key, r.id)
    union all
    select 'changed', o.key, null from outbox o, publisher_state s
    where ${wave}::int > 0 and s.cell_id = ${cell.id} and o.generation > s.classified and o.cell_id is null
      and o.key = any(${keys}::text[])
    union all
    (select 'lost', '', null from ${heldIn(cell, wave)} and h.contents is null limit 1)`,
  )
  const held = new Map(
    rows.filter(({ what }) => what === 'held').map(({ key, contents }) => [key, previousOf(contents)]),
  )
  const changed = rows.filter(({ what, key }) => what === 'changed' && !held.has(key) && goesThroughWaves(key))
  return {
    held,
    unsettled: new Set(changed.map(({ key }) => key)),
    hasLost: rows.some(({ what }) => what === 'lost'),
  }
}

export async function heldKeys(db: Db, cell: Cell, wave: number): Promise<HeldKey[]> {
  const rows = await many<{ key: RecordKey; account_id: Uuid; is_gone: boolean }>(
    db,
    sql`
    select distinct on (h.key) h.key, r.account_id, coalesce(h.contents::json ->> 'value' is null, false) and h.contents is not null as is_gone
    from ${heldIn(cell, wave)} order by h.key, r.id`,
  )
  return rows.map(({ key, account_id, is_gone }) => ({ key, accountId: account_id, isGone: is_gone }))
}
