import { type Db, type DbPool, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { EmergencyInForce } from '../kernel/edge/edge_nodes.ts'
import type { Log } from '../kernel/log.ts'
import type { EdgeNodes } from '../publisher/nodes/nodes.ts'
import type { IsActive } from '../publisher/nodes/reported_hits.ts'
import type { FleetEvent } from './node_store.ts'

type Parts = { db: DbPool; log: Pick<Log, 'warn' | 'error'>; isActive: IsActive }

/** Records which emergency orders nodes follow: they may have received them while the control plane was down. */
export function noteEmergencies(nodes: Pick<EdgeNodes, 'onReport'>, { db, log, isActive }: Parts): void {
  const noted = new Map<string, string>()
  nodes.onReport(({ node, emergencies = [] }, cell) => {
    const ids = emergencies.map(({ id }) => id).join(' ')
    if ((noted.get(node) ?? '') === ids || !isActive(cell)) return
    noted.set(node, ids)
    log.warn({ node, emergencies }, 'the emergency orders that an edge node follows have changed')
    for (const order of emergencies)
      recordEmergency(db, node, order).catch((err) => {
        noted.delete(node)
        log.error({ err, node }, 'cannot record that an edge node follows an emergency order; retrying')
      })
  })
}

const operation: FleetEvent['operation'] = 'emergency_order'
/** Rate limit, because a stolen node can report any number of orders. */
const maxEventsPerDay = 100

/** Records each node and order once, even if another process becomes the publisher. */
export const recordEmergency = (
  db: Db,
  node: string,
  { id, ranges, reason, expiresAt }: EmergencyInForce,
): Promise<void> =>
  run(
    db,
    sql`
    insert into fleet_events (operation, node, detail)
    select ${operation}, ${node}, ${`${id}: refuses ${ranges} ranges until ${expiresAt}${reason && `: ${reason}`}`}
    where not exists (
      select from fleet_events where operation = ${operation} and node = ${node} and starts_with(detail, ${`${id}:`})
    ) and (
      select count(*) from fleet_events
      where operation = ${operation} and node = ${node} and at > now() - interval '1 day'
    ) < ${maxEventsPerDay}`,
  )
