import { deleteInBatches } from '../../db/batches.ts'
import { type Db, later, many, maybeOne, one, run } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { PlannedChange } from '../../http/route.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { rowsToFetch } from '../../kernel/paging.ts'
import type { AnnotationColumns } from '../../operations/annotations.ts'
import type { ChangeSetQuery } from './schema.ts'

/** State of the affected resources before the changes: by id, a hash or a revision. */
export type Base = Readonly<Record<string, string>>
export type State =
  | 'draft'
  | 'waiting'
  | 'approved'
  | 'applied'
  | 'confirmed'
  | 'reverted'
  | 'revert_failed'
  | 'withdrawn'
const openStates: readonly State[] = ['draft', 'waiting', 'approved']
/** Open change sets can still be edited and applied. */
export const isOpen = ({ state }: Pick<ChangeSetRow, 'state'>): boolean => openStates.includes(state)

export type ChangeSetRow = AnnotationColumns & {
  id: Uuid
  state: State
  operations: readonly string[]
  author_id: string
  created_at: string
  applied_at: string | null
  applied_by: string | null
  confirm_by: string | null
  confirmed_at: string | null
  confirmed_by: string | null
  revert_failure: string | null
  generation: number | null
  changes: readonly PlannedChange[]
  base: Base
  admins_only: boolean
  applied_resources: readonly (string | null)[] | null
  /** Set only while it is applied: the caller confirmed an unusual change, or bypasses approval. */
  confirmed?: true
  brokeGlass?: true
  applied_events: readonly Uuid[] | null
  reverts_id: string | null
  reverts: readonly Uuid[]
  /** Further people who may have authored its changes. */
  authors: readonly Uuid[]
  approved_at: string | null
  approved_by: string | null
  approved_sha256: string | null
  withdrawn_at: string | null
  withdrawn_by: string | null
}
/** The events or the change set that this one undoes. */
export type Reverts = Pick<ChangeSetRow, 'reverts_id' | 'reverts'>
type Reader = Pick<Caller, 'accountId' | 'role'>
type Planned = AnnotationColumns & Pick<ChangeSetRow, 'changes' | 'base' | 'admins_only' | 'authors'> & { state: State }

const summary = sql`
  id, description, metadata, state, operations, author_id, created_at, applied_at, applied_by, confirm_by, confirmed_at,
  confirmed_by, revert_failure, reverts_id, approved_at, approved_by, withdrawn_at, withdrawn_by, generation`
const columns = sql`${summary}, changes, base, admins_only, applied_resources, applied_events, reverts, authors, approved_sha256`

/** Only admins see change sets that only admins may apply. */
const visibleTo = ({ accountId, role }: Reader) =>
  sql`account_id = ${accountId} ${role === 'admin' ? nothing : sql`and not admins_only`}`

/** Matches the condition of the index. */
const isUnconfirmed = sql`(confirm_by is not null and state in ('applied', 'revert_failed'))`

const operationsOf = (changes: readonly PlannedChange[]) => changes.map(({ operation }) => operation)

export const insertChangeSet = (
  tx: Db,
  { accountId, ownerId }: Pick<Caller, 'accountId' | 'ownerId'>,
  { description, metadata, state, changes, base, admins_only, authors, reverts_id, reverts }: Planned & Reverts,
) =>
  one<ChangeSetRow>(
    tx,
    sql`
    insert into change_sets
      (account_id, id, description, metadata, state, operations, changes, base, admins_only, author_id, authors, reverts_id,
       reverts)
    values (${accountId}, ${newUuid()}, ${description}, ${metadata}, ${state}, ${operationsOf(changes)}::text[],
      ${JSON.stringify(changes)}, ${JSON.stringify(base)}, ${admins_only}, ${ownerId},
      ${authors}::uuid[], ${reverts_id}, ${reverts}::uuid[])
    returning ${columns}`,
  )

export const findChangeSet = (db: Db, caller: Reader, id: Id<'chs'>, lock: boolean) =>
  maybeOne<ChangeSetRow>(
    db,
    sql`
    select ${columns} from change_sets
    where ${visibleTo(caller)} and id = ${toUuid(id)} ${lock ? sql`for update` : nothing}`,
  )

export const listChangeSets = (db: Db, caller: Reader, query: ChangeSetQuery) =>
  many<ChangeSetRow>(
    db,
    sql`
    select ${summary} from change_sets
    where ${visibleTo(caller)} ${query.before_id ? sql`and id < ${toUuid(query.before_id)}` : nothing}
      ${query.state ? sql`and state = ${query.state}` : nothing}
      ${query.unconfirmed === undefined ? nothing : sql`and ${query.unconfirmed} = ${isUnconfirmed}`}
    order by id desc
    limit ${rowsToFetch(query)}`,
  )

/** Clears the approval, which was given for the old content. */
export const updateChangeSet = (
  tx: Db,
  { accountId }: Reader,
  id: Uuid,
  { description, metadata, state, changes, base, admins_only, authors, reverts_id, reverts }: Planned & Reverts,
) =>
  one<ChangeSetRow>(
    tx,
    sql`
    update change_sets set description = ${description}, metadata = ${metadata}, state = ${state}, changes = ${JSON.stringify(changes)},
      operations = ${operationsOf(changes)}::text[], base = ${JSON.stringify(base)}, admins_only = ${admins_only},
      authors = ${authors}::uuid[], approved_at = null, approved_by = null, approved_sha256 = null,
      reverts_id = ${reverts_id}, reverts = ${reverts}::uuid[]
    where account_id = ${accountId} and id = ${id}
    returning ${columns}`,
  )

type Applied = { resources: readonly (string | null)[]; events: readonly Uuid[] }

/**
 * The time to confirm starts now, not at the start of the transaction. Assigns the generation of its changes for edges.
 */
export const markApplied = (
  tx: Db,
  { accountId, ownerId }: Pick<Caller, 'accountId' | 'ownerId'>,
  id: Uuid,
  { resources, events }: Applied,
  confirmSeconds?: number,
) =>
  one<ChangeSetRow>(
    tx,
    sql`
    update change_sets set state = 'applied', applied_at = now(), applied_by = ${ownerId},
      confirm_by = clock_timestamp() + make_interval(secs => ${confirmSeconds ?? null}),
      applied_resources = ${JSON.stringify(resources)}, applied_events = ${events}::uuid[], generation = take_generation()
    where account_id = ${accountId} and id = ${id}
    returning ${columns}`,
  )

export const deleteChangeSet = (tx: Db, { accountId }: Reader, id: Uuid): Promise<void> =>
  run(tx, sql`delete from change_sets where account_id = ${accountId} and id = ${id}`)

export const markApproved = (tx: Db, { accountId, ownerId }: Caller, id: Uuid, sha256: string) =>
  one<ChangeSetRow>(
    tx,
    sql`
    update change_sets set state = 'approved', approved_at = now(), approved_by = ${ownerId}, approved_sha256 = ${sha256}
    where account_id = ${accountId} and id = ${id}
    returning ${columns}`,
  )

export const markWithdrawn = (tx: Db, { accountId, ownerId }: Caller, id: Uuid) =>
  one<ChangeSetRow>(
    tx,
    sql`
    update change_sets set state = 'withdrawn', withdrawn_at = now(), withdrawn_by = ${ownerId}
    where account_id = ${accountId} and id = ${id}
    returning ${columns}`,
  )

/** A waiting change set of the same author with exactly these changes. */
export const findWaiting = (db: Db, caller: Caller, changes: readonly PlannedChange[]) =>
  maybeOne<ChangeSetRow>(
    db,
    sql`
    select ${columns} from change_sets
    where ${visibleTo(caller)} and state in ('waiting', 'approved') and author_id = ${caller.ownerId}
      and operations = ${operationsOf(changes)}::text[] and changes = ${JSON.stringify(changes)}::jsonb
    order by id desc
    limit 1`,
  )

/** Retention of applied and withdrawn change sets. */
export const appliedDays = 90

export const deleteAppliedBefore = async (db: Db, moment: number): Promise<number> =>
  (await deleteInBatches(db, sql`change_sets`, sql`applied_at < ${rfc3339(moment)}`)) +
  (await deleteInBatches(db, sql`change_sets`, sql`withdrawn_at < ${rfc3339(moment)}`))

/** Resolves to the events that another change set has already undone; this one must not undo them again. */
export async function claimReverts(
  tx: Db,
  { accountId }: Pick<Reader, 'accountId'>,
  { id, reverts }: Pick<ChangeSetRow, 'id' | 'reverts'>,
): Promise<Uuid[]> {
  const claimed = await many<{ event_id: Uuid }>(
    tx,
    sql`
    insert into reverted_events (account_id, event_id, change_set_id)
    select ${accountId}, event_id, ${id} from unnest(${reverts}::uuid[]) as undone (event_id)
    on conflict do nothing
    returning event_id`,
  )
  const own = new Set(claimed.map(({ event_id }) => event_id))
  return reverts.filter((event) => !own.has(event))
}

/** The events that have been undone, and by which change sets. */
export const revertersOf = (db: Db, { accountId }: Reader, events: readonly Uuid[]) =>
  many<{ event_id: Uuid; change_set_id: Uuid }>(
    db,
    sql`
    select event_id, change_set_id from reverted_events
    where account_id = ${accountId} and event_id = any(${events}::uuid[])
    order by event_id`,
  )

/**
 * Resolves to undefined if it does not wait for confirmation or its time is over. The caller has locked the row, so a
 * concurrent undo sees the confirmation or came first.
 */
export const markConfirmed = (tx: Db, { accountId, ownerId }: Caller, id: Uuid) =>
  maybeOne<ChangeSetRow>(
    tx,
    sql`
    update change_sets set state = 'confirmed', confirmed_at = now(), confirmed_by = ${ownerId}
    where account_id = ${accountId} and id = ${id} and ${isUnconfirmed}
      and (state = 'revert_failed' or confirm_by > clock_timestamp())
    returning ${columns}`,
  )

/** Its own effects can be undone again. Resolves to false if there is nothing left to undo. */
export async function markReverted(tx: Db, { accountId }: Pick<Reader, 'accountId'>, id: Id<'chs'>): Promise<boolean> {
  const marked = await maybeOne(
    tx,
    sql`
    update change_sets set state = 'reverted' where account_id = ${accountId} and id = ${toUuid(id)}
      and state in ('applied', 'confirmed', 'revert_failed')
    returning id`,
  )
  await later(tx, sql`delete from reverted_events where account_id = ${accountId} and change_set_id = ${toUuid(id)}`)
  return marked !== undefined
}
