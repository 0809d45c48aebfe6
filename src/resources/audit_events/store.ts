import { type Db, many } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Static } from '../../http/wire.ts'
import type { Caller } from '../../identity/caller.ts'
import { toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { canonicalAddress } from '../../kernel/ip/address.ts'
import { rowsToFetch } from '../../kernel/paging.ts'
import type { AuditEvent, AuditEventQuery } from './schema.ts'

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
