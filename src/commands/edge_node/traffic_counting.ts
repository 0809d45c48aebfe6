import { join } from 'node:path'
import type { Files } from '../../agent/disk/files.ts'
import { createTrafficCounts } from '../../agent/reports/traffic_counts.ts'
import type { EdgeConfig } from '../../config/config.ts'
import type { Log } from '../../kernel/log.ts'

type Settings = Pick<EdgeConfig, 'GATEHOUSE_EDGE_FOLDER' | 'GATEHOUSE_EDGE_REQUEST_LINES'>

/** Counts this node's traffic for the control plane, across restarts of the agent. */
export async function openTrafficCounting(config: Settings, log: Log, files: Files) {
  const file = join(config.GATEHOUSE_EDGE_FOLDER, 'traffic_counts.json')
  // If HAProxy logs exceptions only, an error rate would be wrong.
  if (config.GATEHOUSE_EDGE_REQUEST_LINES !== 'all') return { traffic: undefined, save: async () => {} }
  const traffic = createTrafficCounts({ files })
  await traffic.load(file).catch((err) => log.error({ err }, 'lost the traffic counts saved by the previous agent'))
  return {
    traffic,
    /** Call it after the last line. Saves the undelivered counts for the next agent. */
    save: () =>
      traffic.save(file).catch((err) => log.error({ err }, 'cannot save traffic counts; the last ones are lost')),
  }
}
