import { type Db, later } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Origin } from '../identity/origin.ts'
import { type Id, newUuid } from '../kernel/ids.ts'

type Change = { resourceId: Id; before: object | null; after: object | null }

/**
 * Call it in the transaction of the change: then there is no change without its event and no event without its
 * change. A change that changed nothing leaves none. Pass what a GET would show, which never
 * holds a token. Resolves to whether there was one.
 */
export async function recordChange(tx: Db, origin: Origin, { resourceId, before, after }: Change): Promise<boolean> {
  const [from, to] = [before && JSON.stringify(before), after && JSON.stringify(after)]
  if (from === to) return false
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

/** The same for many that one request deletes, in one statement. */
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
