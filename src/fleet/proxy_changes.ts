import { type Db, type DbPool, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Log } from '../kernel/log.ts'
import type { EdgeNodes } from '../publisher/nodes/nodes.ts'
import type { IsActive } from '../publisher/nodes/reported_hits.ts'
import type { FleetEvent } from './node_store.ts'

type Parts = { db: DbPool; clock: Clock; log: Pick<Log, 'error'>; isActive: IsActive }

/** Rate limit, because a stolen node can report anything, any number of times. */
const againMs = 60_000

/** Logs that a node found its HAProxy changed, and records it for `gatehouse nodes events`. */
export function noteProxyChanges(nodes: Pick<EdgeNodes, 'onReport'>, { db, clock, log, isActive }: Parts): void {
  const noted = new Map<string, { since: string | undefined; at: number }>()
  nodes.onReport(({ node, differences }, cell) => {
    if (!differences?.since || !isActive(cell)) return
    const { since, found, latest } = differences
    const [before, at] = [noted.get(node), clock()]
    if (before?.since === since || at - (before?.at ?? 0) < againMs) return
    noted.set(node, { since: undefined, at })
    log.error({ node, found, latest }, 'an edge node reports that another program changed its HAProxy')
    recordProxyChange(db, node, since)
      .then(() => noted.set(node, { since, at }))
      .catch((err) => log.error({ err, node }, 'cannot record that the HAProxy of an edge node was changed; retrying'))
  })
}

const operation: FleetEvent['operation'] = 'proxy_changed'

/**
 * Records each change once, even if another process becomes the publisher, and at most once an hour: a node could
 * otherwise fill the table, and with it the disk.
 */
export const recordProxyChange = (db: Db, node: string, since: string): Promise<void> =>
  run(
    db,
    sql`
    insert into fleet_events (operation, node, detail)
    select ${operation}, ${node}, ${`another program changed its HAProxy, found at ${since}; its log names what`}
    where not exists (
      select from fleet_events where operation = ${operation} and node = ${node}
        and at > least(${since}::timestamptz, now() - interval '1 hour')
    )`,
  )
