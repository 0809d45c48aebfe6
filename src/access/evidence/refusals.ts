import { deleteInBatches } from '../../db/batches.ts'
import { type Db, many, maybeOne, run } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { type Id, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'

type RefusalColumns = {
  /** Id of the refused operation. */
  id: Uuid
  type: string
  operation: string
  source_ip: string | null
  api_key_id: string | null
  ip_restriction_id: Uuid
  ip_policy_id: Uuid | null
  ip_policy_rule_id: Uuid | null
}
export type RefusalRow = RefusalColumns & { account_id: Uuid; at: number }
export type StoredRefusal = RefusalColumns & { created_at: string }

const columns = sql`id, created_at, type, operation, host(source_ip) as source_ip, api_key_id, ip_restriction_id, ip_policy_id, ip_policy_rule_id`

export const insertRefusals = (db: Db, rows: readonly RefusalRow[]): Promise<void> =>
  run(
    db,
    sql`
    insert into ip_refusals
      (account_id, id, created_at, type, operation, source_ip, api_key_id, ip_restriction_id, ip_policy_id, ip_policy_rule_id)
    select * from unnest(
      ${rows.map((row) => row.account_id)}::uuid[], ${rows.map((row) => row.id)}::uuid[], ${rows.map((row) => rfc3339(row.at))}::timestamptz[],
      ${rows.map((row) => row.type)}::text[], ${rows.map((row) => row.operation)}::text[], ${rows.map((row) => row.source_ip)}::inet[],
      ${rows.map((row) => row.api_key_id)}::text[], ${rows.map((row) => row.ip_restriction_id)}::uuid[],
      ${rows.map((row) => row.ip_policy_id)}::uuid[], ${rows.map((row) => row.ip_policy_rule_id)}::uuid[])
    on conflict do nothing`,
  )

export const findRefusal = (db: Db, { accountId }: Caller, id: Id<'op'>) =>
  maybeOne<StoredRefusal>(
    db,
    sql`select ${columns} from ip_refusals where account_id = ${accountId} and id = ${toUuid(id)}`,
  )

export const listRefusals = (db: Db, { accountId }: Caller, query: PageQuery & { before_id?: Id<'op'> }) =>
  many<StoredRefusal>(
    db,
    sql`
    select ${columns} from ip_refusals
    where account_id = ${accountId} ${query.before_id ? sql`and id < ${toUuid(query.before_id)}` : nothing}
    order by id desc
    limit ${rowsToFetch(query)}`,
  )

export const deleteRefusalsBefore = (db: Db, moment: number): Promise<number> =>
  deleteInBatches(db, sql`ip_refusals`, sql`created_at < ${rfc3339(moment)}`)
