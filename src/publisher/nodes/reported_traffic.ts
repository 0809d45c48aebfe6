import type { DbPool } from '../../db/pool.ts'
import { keptTraffic } from '../../distribution/traffic_report.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Log } from '../../kernel/log.ts'
import { keepTraffic } from '../../resources/traffic_statistics/keep.ts'
import type { EdgeNodes } from './nodes.ts'
import { createRecentTraffic, type RecentTraffic } from './recent_traffic.ts'

type Parts = { clock: Clock; log: Pick<Log, 'error'> }

/**
 * Receives traffic counts of nodes, after the filter for accounts of other cells. Answers once they are in the database;
 * until then the node sends them again.
 */
export function takeTraffic(db: DbPool, nodes: Pick<EdgeNodes, 'onReport'>, { clock, log }: Parts): RecentTraffic {
  const recent = createRecentTraffic(clock)
  const busy = new Set<string>()
  nodes.onReport((report, cell, answer) => {
    recent.add(report, cell)
    const { node, traffic } = report
    if (!traffic || busy.has(node)) return
    busy.add(node)
    keepTraffic(db, node, traffic, clock())
      .then(() => answer(keptTraffic(traffic.batch)))
      .catch((err) => log.error({ err, node }, 'cannot write traffic counts; the edge node will resend them'))
      .finally(() => busy.delete(node))
  })
  return recent
}
