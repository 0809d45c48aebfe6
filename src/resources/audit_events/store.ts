import { type Db, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { firstUuidOf, toUuid, type Uuid } from '../../kernel/ids.ts'
import { rowsToFetch } from '../../kernel/paging.ts'
import { parseRfc3339 } from '../../kernel/time.ts'
import type { AuditEventQuery } from './schema.ts'
import type { AuditEventRow } from './view.ts'

type Account = Pick<Caller, 'accountId'>
/** `lastSeen`: the page was not filled, and there is more after this event, which may or may not be among the rows. */
export type Found = { rows: AuditEventRow[]; lastSeen?: Uuid }

const columns = sql`id, created_at, operation, operation_id, owner_id, api_key_id, dashboard_session_id, source_ip,
      resource_id, before, after`

/**
 * How many events a page looks at where no index has all of its filters. Without a bound, a page of what an owner did with
 * an operation that the owner never used reads everything that the owner did. With an index for each combination, every
 * change would pay for all of them.
 */
export const eventsPerPage = 5_000

/**
 * Above what the window can hold: it cuts nothing off. It keeps PostgreSQL from trying the other filters first, for which
 * it reads whole tables when it expects few rows.
 */
const inOrder = sql`limit ${2 * eventsPerPage}`

/** How far the clock of a process may be from the database's: ids have the time of one, created_at that of the other. */
const clockSlackMs = 5 * 60_000

/** Newest first, by id. */
export async function listAuditEvents(db: Db, { accountId }: Account, query: AuditEventQuery): Promise<Found> {
  const { indexed, others } = filtersOf(query)
  const inIndex = sql`account_id = ${accountId} ${indexed}
      ${query.before_id ? sql`and id < ${toUuid(query.before_id)}` : nothing} ${idsBetween(query)}`
  const last = others
    ? await maybeOne<{ id: Uuid }>(
        db,
        sql`select id from audit_events where ${inIndex} order by id desc offset ${eventsPerPage - 1} limit 1`,
      )
    : undefined
  const rows = await many<AuditEventRow>(
    db,
    sql`
    select ${columns} from (
      select ${columns} from audit_events
      where ${inIndex} ${last ? sql`and id >= ${last.id}` : nothing}
      order by id desc
      ${others ? inOrder : nothing}
    ) seen
    where true ${others ?? nothing} ${createdBetween(query)}
    order by id desc
    limit ${rowsToFetch(query)}`,
  )
  return { rows, ...(last && { lastSeen: last.id }) }
}

export type Place = { position: number; id: Uuid }
export type AuditedEvent = AuditEventRow & { position: number }

/** In the order in which they were written. */
export const findAuditEvents = (db: Db, { accountId }: Account, ids: readonly Uuid[]) =>
  many<AuditedEvent>(
    db,
    sql`
    select ${columns}, position from audit_events
    where account_id = ${accountId} and id = any(${ids}::uuid[])
    order by id`,
  )

/** The newest about a resource, newest first, of those after a position. */
export const eventsAbout = (db: Db, { accountId }: Account, resourceId: string, after: number) =>
  many<AuditedEvent>(
    db,
    sql`
    select ${columns}, position from audit_events
    where account_id = ${accountId} and resource_id = ${resourceId} and position > ${after}
    order by id desc
    limit 100`,
  )

/** Before the first event. */
export const beginning: Place = { position: -1, id: firstUuidOf(0) }

/** Undefined when the account has no such event. */
export const placeOf = (db: Db, { accountId }: Account, id: Uuid) =>
  maybeOne<Place>(db, sql`select position, id from audit_events where account_id = ${accountId} and id = ${id}`)

/** Up to where every change has ended, one way or the other. */
export const settledPosition = async (db: Db): Promise<number> =>
  (await one<{ settled: number }>(db, sql`select settled_audit_position() as settled`)).settled

/**
 * Oldest first, in the order of positions, and only up to where every transaction has ended: events committed later come
 * after those returned. The bound is read by an earlier statement than the events, as in readOutbox().
 */
export async function listCommittedEvents(
  db: Db,
  { accountId }: Account,
  after: Place,
  query: AuditEventQuery,
): Promise<Found> {
  const { indexed, others } = filtersOf(query)
  const settled = await settledPosition(db)
  const inIndex = sql`account_id = ${accountId} and (position, id) > (${after.position}, ${after.id})
      and position between ${after.position} and ${settled} ${idsBetween(query)}`
  const isFiltered = indexed !== nothing || others !== undefined
  const last = isFiltered
    ? await maybeOne<Place>(
        db,
        sql`
        select position, id from audit_events where ${inIndex} order by position, id offset ${eventsPerPage - 1} limit 1`,
      )
    : undefined
  const rows = await many<AuditEventRow>(
    db,
    sql`
    select ${columns} from (
      select ${columns}, position from audit_events
      where ${inIndex} ${last ? sql`and position <= ${last.position} and (position, id) <= (${last.position}, ${last.id})` : nothing}
      order by position, id
      ${isFiltered ? inOrder : nothing}
    ) seen
    where true ${indexed} ${others ?? nothing} ${createdBetween(query)}
    order by position, id
    limit ${rowsToFetch(query)}`,
  )
  return { rows, ...(last && { lastSeen: last.id }) }
}

/** Splits the filters into the one that an index has together with the id, and the others, if there are any. */
function filtersOf(query: AuditEventQuery): { indexed: SqlFragment; others: SqlFragment | undefined } {
  const { resource_id, owner_id, operation, resource_type, api_key_id, source_ip } = query
  const isPattern = operation?.includes('*')
  const [indexed = nothing, ...others] = [
    resource_id && sql`and resource_id = ${resource_id}`,
    owner_id && sql`and owner_id = ${owner_id}`,
    operation && !isPattern && sql`and operation = ${operation}`,
  ].filter((filter) => typeof filter === 'object')
  const withoutIndex = [
    operation && isPattern && sql`and operation like ${likePattern(operation)}`,
    resource_type && sql`and starts_with(resource_id, ${`${resource_type}_`})`,
    api_key_id && sql`and api_key_id = ${api_key_id}`,
    source_ip && sql`and source_ip <<= ${source_ip}::inet`,
  ].filter((filter) => typeof filter === 'object')
  const rest = [...others, ...withoutIndex]
  return { indexed, others: rest.length ? rest.reduce((all, filter) => sql`${all} ${filter}`) : undefined }
}

const likePattern = (pattern: string): string => pattern.replace(/[\\%_]/g, '\\$&').replaceAll('*', '%')

const momentOf = (text: string | undefined): number | undefined => (text ? parseRfc3339(text) : undefined)

/** Where the times can be among the ids: what an index and the choice of partitions can use. */
function idsBetween(query: AuditEventQuery): SqlFragment {
  const [since, until] = [momentOf(query.since), momentOf(query.until)]
  return sql`${since === undefined ? nothing : sql`and id >= ${firstUuidOf(Math.max(0, since - clockSlackMs))}`}
      ${until === undefined ? nothing : sql`and id < ${firstUuidOf(Math.max(0, until + clockSlackMs))}`}`
}

function createdBetween(query: AuditEventQuery): SqlFragment {
  const [since, until] = [momentOf(query.since), momentOf(query.until)]
  return sql`${since === undefined ? nothing : sql`and created_at >= ${rfc3339(since)}`}
      ${until === undefined ? nothing : sql`and created_at < ${rfc3339(until)}`}`
}
