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
/** `lastSeen`: the page was not filled and the search continues after this event, which may be one of the rows. */
export type Found = { rows: AuditEventRow[]; lastSeen?: Uuid }

const columns = sql`id, created_at, operation, operation_id, owner_id, api_key_id, dashboard_session_id, source_ip,
      resource_id, before, after`

/**
 * Events that a page examines if no index covers all of its filters. Without a limit, filtering an owner's events by an
 * operation that they never used would read all of them. An index per combination would slow down every change.
 */
export const eventsPerPage = 5_000

/**
 * Larger than the window, so it removes no rows. It stops PostgreSQL from applying the other filters first, which scans
 * whole tables if it expects few rows.
 */
const inOrder = sql`limit ${2 * eventsPerPage}`

/** Tolerated difference between a process's clock (ids) and the database's (created_at). */
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

/** Latest events about a resource after a position, newest first. */
export const eventsAbout = (db: Db, { accountId }: Account, resourceId: string, after: number) =>
  many<AuditedEvent>(
    db,
    sql`
    select ${columns}, position from audit_events
    where account_id = ${accountId} and resource_id = ${resourceId} and position > ${after}
    order by id desc
    limit 100`,
  )

/** Position before the first event. */
export const beginning: Place = { position: -1, id: firstUuidOf(0) }

export const placeOf = (db: Db, { accountId }: Account, id: Uuid) =>
  maybeOne<Place>(db, sql`select position, id from audit_events where account_id = ${accountId} and id = ${id}`)

/** The position up to which all transactions have ended. */
export const settledPosition = async (db: Db): Promise<number> =>
  (await one<{ settled: number }>(db, sql`select settled_audit_position() as settled`)).settled

/**
 * Oldest first by position, up to where all transactions have ended: events committed later follow those returned. An
 * earlier statement reads that bound, as in readOutbox().
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

/** Splits the filters into the one that is indexed together with the id, and the others, if any. */
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

/** Converts times to a range of ids, for the index and partition pruning. */
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
