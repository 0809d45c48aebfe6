import { join } from 'node:path'
import type { Files } from '../../agent/disk/files.ts'
import { createTrafficCounts } from '../../agent/reports/traffic_counts.ts'
import type { EdgeConfig } from '../../config/config.ts'
import type { Log } from '../../kernel/log.ts'

type Settings = Pick<EdgeConfig, 'GATEHOUSE_EDGE_FOLDER' | 'GATEHOUSE_EDGE_REQUEST_LINES'>

/** What the control plane learns of the traffic on this node, across restarts of the agent. */
export async function openTrafficCounting(config: Settings, log: Log, files: Files) {
  const file = join(config.GATEHOUSE_EDGE_FOLDER, 'traffic_counts.json')
  // Where HAProxy tells about exceptions only, a share of errors would be wrong.
  if (config.GATEHOUSE_EDGE_REQUEST_LINES !== 'all') return { traffic: undefined, save: async () => {} }
  const traffic = createTrafficCounts({ files })
  await traffic.load(file).catch((err) => log.error({ err }, 'lost the traffic counts saved by the previous agent'))
  return {
    traffic,
    /** After the last line. What the control plane does not have yet is for the next agent. */
    save: () =>
      traffic.save(file).catch((err) => log.error({ err }, 'cannot save traffic counts; the last ones are lost')),
  }
}
