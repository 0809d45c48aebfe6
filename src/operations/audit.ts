import { isDeepStrictEqual } from 'node:util'
import { type Db, later } from '../db/pool.ts'
import { type SqlFragment, sql } from '../db/sql.ts'
import type { Origin } from '../identity/origin.ts'
import { type Id, newUuid } from '../kernel/ids.ts'

type Change = { resourceId: Id; before: object | null; after: object | null }

/**
 * Call it in the transaction of the change, so that change and event exist together. Writes nothing if `before` equals
 * `after`. Pass the representation of a GET, which never contains a token. Resolves to whether an event was written.
 */
export async function recordChange(tx: Db, origin: Origin, { resourceId, before, after }: Change): Promise<boolean> {
  const [from, to] = [before && JSON.stringify(before), after && JSON.stringify(after)]
  if (from === to || (from && to && isSameInAnotherOrder(from, to))) return false
  await later(
    tx,
    sql`
    insert into audit_events
      (account_id, id, operation, operation_id, owner_id, api_key_id, dashboard_session_id, source_ip, resource_id, before, after)
    values
      (${origin.accountId}, ${newUuid()}, ${origin.operation}, ${origin.operationId}, ${origin.caller?.ownerId ?? null},
       ${origin.caller?.apiKeyId ?? null}, ${origin.caller?.sessionId ?? null}, ${origin.sourceIp ?? null}, ${resourceId}, ${from}, ${to})`,
  )
  return true
}

/** Change sets do not preserve the order of names, and applying one must write the same events as its trial. */
const isSameInAnotherOrder = (from: string, to: string): boolean =>
  from.length === to.length && isDeepStrictEqual(JSON.parse(from), JSON.parse(to))

/**
 * The event as part of the creating statement, for a `with` clause: `created` returns the new rows. `after` lacks the
 * creation time, which only PostgreSQL knows.
 */
export const creationEvent = (origin: Origin, created: SqlFragment, resourceId: Id, after: object): SqlFragment => sql`
    insert into audit_events
      (account_id, id, operation, operation_id, owner_id, api_key_id, dashboard_session_id, source_ip, resource_id, after)
    select ${origin.accountId}, ${newUuid()}, ${origin.operation}, ${origin.operationId}, ${origin.caller?.ownerId ?? null},
      ${origin.caller?.apiKeyId ?? null}, ${origin.caller?.sessionId ?? null}, ${origin.sourceIp ?? null}::inet, ${resourceId},
      ${JSON.stringify(after)}::jsonb || jsonb_build_object('created_at',
        to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
    from ${created}`

/** Events for all resources that one request deletes, in one statement. */
export const recordDeletions = (tx: Db, origin: Origin, deleted: readonly { id: Id }[]): Promise<void> =>
  later(
    tx,
    sql`
    insert into audit_events
      (account_id, id, operation, operation_id, owner_id, api_key_id, dashboard_session_id, source_ip, resource_id, before)
    select ${origin.accountId}, d.id, ${origin.operation}, ${origin.operationId}, ${origin.caller?.ownerId ?? null},
      ${origin.caller?.apiKeyId ?? null}, ${origin.caller?.sessionId ?? null}, ${origin.sourceIp ?? null}::inet,
      d.resource_id, d.before::jsonb
    from unnest(${deleted.map(() => newUuid())}::uuid[], ${deleted.map(({ id }) => id)}::text[],
      ${deleted.map((fields) => JSON.stringify(fields))}::text[]) as d (id, resource_id, before)`,
  )
