import { type Db, many, maybeOne } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { firstUuidOf, momentOfUuid, type Uuid } from '../../kernel/ids.ts'
import { NotRecorded, type PastChange } from './walk_back.ts'

/** Largest distance between an id and its timestamp: ids use a process's clock and are created mid-transaction. */
const slackMs = 15 * 60_000
/** Keeps the query below a second. Accounts with more changes must ask about a later time. */
const mostChanges = 20_000

/**
 * Changes since a moment that match `which`, a condition on `e`, latest first. A change is dated by the start of its
 * transaction, as in its event. One written after a later change counts as later too, because it built on the state
 * that the other left.
 */
export async function changesSince(db: Db, accountId: Uuid, moment: number, which: SqlFragment): Promise<PastChange[]> {
  await refuseForgotten(db, accountId, moment)
  const rows = await many<PastChange & { is_asked: boolean; seen: number }>(
    db,
    sql`
    select operation, operation_id, resource_id, created_at, is_asked, seen,
      case when is_asked then before end as before, case when is_asked then after end as after
    from (
      select *, ${which} as is_asked, count(*) over () as seen
      from (
        select * from audit_events
        where account_id = ${accountId} and id >= ${firstUuidOf(Math.max(0, moment - slackMs))} and position >= 0
        order by position desc, id desc limit ${mostChanges}) e) e
    where is_asked or created_at > ${rfc3339(moment)}
    order by position desc, id desc`,
  )
  const isLater = ({ created_at }: PastChange) => Date.parse(created_at) > moment
  const later = rows.slice(0, rows.findLastIndex(isLater) + 1)
  const oldest = later.at(-1)
  // The read stopped at its limit, so older changes may also fall into the period.
  if (oldest && oldest.seen >= mostChanges && later.length === rows.length) throw new NotRecorded(oldest)
  return later.filter((row) => row.is_asked)
}

/** Retention deletes the oldest months of ids, so everything since the oldest event's month is complete. */
async function refuseForgotten(db: Db, accountId: Uuid, moment: number): Promise<void> {
  const oldest = await maybeOne<NotRecorded['change'] & { id: Uuid }>(
    db,
    sql`
    select id, operation, resource_id, created_at from audit_events where account_id = ${accountId} order by id limit 1`,
  )
  const isFirst = oldest?.operation === 'server.bootstrap'
  const month = new Date(oldest ? momentOfUuid(oldest.id) : Date.now())
  const earliest = isFirst
    ? Date.parse(oldest.created_at)
    : Date.UTC(month.getUTCFullYear(), month.getUTCMonth()) + slackMs
  if (moment < earliest)
    throw new NotRecorded({
      ...{ operation: oldest?.operation ?? '', resource_id: oldest?.resource_id ?? '' },
      created_at: rfc3339(earliest),
    })
}
