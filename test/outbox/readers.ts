import { type DbPool, many } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type OutboxRow, readOutbox } from '../../src/operations/outbox.ts'
import { defaultCell } from '../../src/operations/placement.ts'
import { pause } from '../harness/poll.ts'

export type Reading = { rows: string[]; wentBack: string[]; longestLagMs: number }
type Next = (after: number) => Promise<Pick<OutboxRow, 'generation' | 'key' | 'created_at'>[]>

const nameOf = ({ generation, key }: Pick<OutboxRow, 'generation' | 'key'>) => `${generation} ${key}`

/** Asks for what comes after the last generation it has seen, again and again, until it has seen `end()`. */
async function follow(next: Next, end: () => number | undefined): Promise<Reading> {
  const reading: Reading = { rows: [], wentBack: [], longestLagMs: 0 }
  for (let after = 0; after < (end() ?? Number.POSITIVE_INFINITY); ) {
    const rows = await next(after)
    let last = after
    for (const row of rows) {
      if (row.generation < last || row.generation <= after) reading.wentBack.push(`${nameOf(row)} after ${last}`)
      last = Math.max(last, row.generation)
      reading.rows.push(nameOf(row))
      reading.longestLagMs = Math.max(reading.longestLagMs, Date.now() - Date.parse(row.created_at))
    }
    after = last
    if (rows.length === 0) await pause(2)
  }
  return reading
}

/** As the publisher reads: in small pages, so that a page ends within a generation now and then. */
export const followSettled = (db: DbPool, end: () => number | undefined, pageSize = 7): Promise<Reading> =>
  follow(async (after) => (await readOutbox(db, defaultCell, after, pageSize)).rows, end)

/** As one would first write it: every row with a higher number than the last. */
export const followNaively = (db: DbPool, end: () => number | undefined): Promise<Reading> =>
  follow(
    (after) =>
      many(
        db,
        sql`select generation, key, created_at from outbox where generation > ${after} order by generation, key`,
      ),
    end,
  )
