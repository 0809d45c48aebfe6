import { join } from 'node:path'
import type { Files } from '../../agent/disk/files.ts'
import { receiveRuleCounts } from '../../agent/haproxy/lines/rule_counts.ts'
import type { ProxySettings } from '../../agent/haproxy/settings.ts'
import { createRuleHits } from '../../agent/reports/rule_hits.ts'
import type { Log } from '../../kernel/log.ts'

/** Counts which rules decide on this node, from HAProxy's threads to the control plane, across restarts of the agent. */
export async function openRuleCounting(folder: string, settings: ProxySettings, log: Log, files: Files) {
  const file = join(folder, 'rule_hits.json')
  const hits = createRuleHits({ files })
  await hits.load(file).catch((err) => log.error({ err }, 'lost the rule hits saved by the previous agent'))
  const receiver = await receiveRuleCounts(
    settings,
    ({ account, rule, outcome, times }) => hits.count(account, rule, outcome, times, Date.now()),
    hits.lose,
  )
  return {
    hits,
    /** Call it after the last report. Saves the undelivered counts for the next agent. */
    async stop(): Promise<void> {
      await receiver.close()
      await hits.save(file).catch((err) => log.error({ err }, 'cannot save rule hits; they are lost'))
    },
  }
}
