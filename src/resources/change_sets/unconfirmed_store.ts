import { type Db, many, maybeOne, one } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { type ChangeSetRow, findChangeSet } from './store.ts'

/** A change set that waits for confirmation. */
export type Unconfirmed = { account_id: Uuid; id: Uuid; in_ms: number }

/** The most urgent one of each account, so that accounts with many take turns with others. */
export const nextUnconfirmed = (db: Db): Promise<Unconfirmed[]> =>
  many(
    db,
    sql`
    select account_id, id, ceil(1000 * extract(epoch from confirm_by - clock_timestamp()))::float8 as in_ms from (
      select distinct on (account_id) account_id, id, confirm_by from change_sets
      where confirm_by is not null and state = 'applied'
      order by account_id, confirm_by
    ) first
    order by confirm_by limit 100`,
  )

/** Locks it for one process. Undefined: another process has it, or it was confirmed or undone. */
export async function lockOverdue(tx: Db, { account_id, id }: Unconfirmed): Promise<ChangeSetRow | undefined> {
  const locked = await maybeOne<object>(
    tx,
    sql`
    select from change_sets
    where account_id = ${account_id} and id = ${id} and state = 'applied' and confirm_by <= clock_timestamp()
    for update skip locked`,
  )
  return locked === undefined
    ? undefined
    : findChangeSet(tx, { accountId: account_id, role: 'admin' }, toId('chs', id), false)
}

export const markRevertFailed = (tx: Db, { account_id, id }: Unconfirmed, reason: string): Promise<unknown> =>
  one(
    tx,
    sql`
    update change_sets set state = 'revert_failed', revert_failure = ${reason}
    where account_id = ${account_id} and id = ${id}
    returning id`,
  )

/** Counts for metrics: waiting, overdue, and those that could not be undone. */
export const countUnconfirmed = (db: Db): Promise<{ waiting: number; overdue: number; revert_failed: number }> =>
  one(
    db,
    sql`
    select count(*) filter (where state = 'applied') as waiting,
      count(*) filter (where state = 'applied' and confirm_by < now() - interval '5 seconds') as overdue,
      count(*) filter (where state = 'revert_failed') as revert_failed
    from change_sets where confirm_by is not null and state in ('applied', 'revert_failed')`,
  )
