import type { Caller } from '../../auth/caller.ts'
import { type Db, many, run } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Origin } from '../../http/route.ts'
import type { Static } from '../../http/wire.ts'
import { type Id, newUuid, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { canonicalAddress } from '../../kernel/ip/address.ts'
import { rowsToFetch } from '../../kernel/paging.ts'
import type { AuditEvent, AuditEventQuery } from './schema.ts'

type Fields = Record<string, unknown>
type Change = { resourceId: Id; before: Fields | null; after: Fields | null }

/**
 * Call it in the transaction of the change: then there is no change without its event and no event without its
 * change. A change that changed nothing leaves none. Pass what a GET would show, which never
 * holds a token. Resolves to whether there was one.
 */
export async function recordChange(tx: Db, origin: Origin, { resourceId, before, after }: Change): Promise<boolean> {
  const [from, to] = [before && JSON.stringify(before), after && JSON.stringify(after)]
  if (from === to) return false
  await run(
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

/** The same for many that one request deletes, in one statement. */
export const recordDeletions = (tx: Db, origin: Origin, deleted: readonly (Fields & { id: Id })[]): Promise<void> =>
  run(
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

type AuditEventRow = Omit<AuditEvent, 'id'> & { id: Uuid }

export async function listAuditEvents(
  db: Db,
  { accountId }: Caller,
  query: Static<typeof AuditEventQuery>,
): Promise<AuditEvent[]> {
  const rows = await many<AuditEventRow>(
    db,
    sql`
    select id, created_at, operation, operation_id, owner_id, api_key_id, dashboard_session_id, source_ip, resource_id,
      before, after
    from audit_events
    where account_id = ${accountId}
      ${query.before_id ? sql`and id < ${toUuid(query.before_id)}` : nothing}
      ${query.resource_id ? sql`and resource_id = ${query.resource_id}` : nothing}
      ${query.owner_id ? sql`and owner_id = ${query.owner_id}` : nothing}
      ${query.operation ? sql`and operation = ${query.operation}` : nothing}
    order by id desc
    limit ${rowsToFetch(query)}`,
  )
  return rows.map((row) => ({
    ...row,
    id: toId('ev', row.id),
    source_ip: row.source_ip && canonicalAddress(row.source_ip),
  }))
}
