// What an installation asks of PostgreSQL while nothing happens. Every statement of an idle process is paid for all day.
import { after, test } from 'node:test'
import { one } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { newTcpEdge } from './harness/fixtures.ts'
import { poll } from './harness/poll.ts'
import { startFleet } from './harness/reporting_nodes.ts'

/** A process with a publisher makes some six a second. Without its pauses it made thirty. */
const mostPerSecond = 10
const countEveryMs = 5_000

const plane = await startFleet({ after })

const transactions = async (): Promise<number> =>
  (
    await one<{ count: number }>(
      plane.db,
      sql`select (xact_commit + xact_rollback)::float8 as count from pg_stat_database where datname = current_database()`,
    )
  ).count

test('a process with nothing to do asks PostgreSQL a few times a second, some seconds after a change', async () => {
  await newTcpEdge(await plane.newAccount())
  let [count, at] = [await transactions(), performance.now()]
  async function perSecond(): Promise<number> {
    const [before, since] = [count, at]
    ;[count, at] = [await transactions(), performance.now()]
    return (1_000 * (count - before)) / (at - since)
  }
  await poll(perSecond, (rate) => rate > 0 && rate <= mostPerSecond, { everyMs: countEveryMs })
})
