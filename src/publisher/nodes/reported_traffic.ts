import { keptTraffic } from '../../distribution/traffic_report.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { EdgeNodes } from './nodes.ts'
import { createRecentTraffic, type RecentTraffic } from './recent_traffic.ts'

/** Takes in what nodes count of traffic, once they are believed about it. */
export function takeTraffic(nodes: Pick<EdgeNodes, 'onReport'>, clock: Clock): RecentTraffic {
  const recent = createRecentTraffic(clock)
  nodes.onReport((report, cell, answer) => {
    recent.add(report, cell)
    if (report.traffic) answer(keptTraffic(report.traffic.batch))
  })
  return recent
}
