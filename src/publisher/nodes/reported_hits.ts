import type { HitBuffer } from '../../access/evidence/hit_buffer.ts'
import type { OutcomeBuffer } from '../../access/evidence/outcome_buffer.ts'
import { addReportedRuleHits } from '../../access/evidence/rule_hits.ts'
import type { DbPool } from '../../db/pool.ts'
import { keptRuleHits, type Report } from '../../distribution/channels.ts'
import type { Clock } from '../../kernel/clock.ts'
import { type Id, isId, toUuid, type Uuid } from '../../kernel/ids.ts'
import type { Log } from '../../kernel/log.ts'
import type { EdgeNodes } from './nodes.ts'

export type EdgeBuffers = { hitBuffer: HitBuffer; outcomeBuffer: OutcomeBuffer }

/** Whether this process is the active publisher of the cell. */
export type IsActive = (cell: string) => boolean

/** Only the active publisher of its cell adds up what a node counted, or it would be added once by every process. */
export function takeHits(nodes: Pick<EdgeNodes, 'onReport'>, buffers: EdgeBuffers, isActive: IsActive): void {
  nodes.onReport((report, cell, answer) => {
    if (!isActive(cell)) return
    countHits(report, buffers)
    if (!report.ruleHits && !report.traffic) answer('kept')
  })
}

/** Answered when it is in the database. Until then the node sends the same again. */
export function saveRuleHits(
  db: DbPool,
  nodes: Pick<EdgeNodes, 'onReport'>,
  parts: { clock: Clock; log: Pick<Log, 'error'> },
  isActive: IsActive,
): void {
  const busy = new Set<string>()
  nodes.onReport(({ node, ruleHits }, cell, answer) => {
    if (!ruleHits || !isActive(cell) || busy.has(node)) return
    busy.add(node)
    const hits = ruleHits.hits.map(({ account, rule, ...hit }) => ({
      ...hit,
      accountId: toUuid(account as Id<'ac'>),
      ruleId: toUuid(rule as Id<'ipr'>),
    }))
    const { sender, batch } = ruleHits
    addReportedRuleHits(db, { node, sender: sender as Uuid, batch, hits }, parts.clock())
      .then(() => answer(keptRuleHits(batch)))
      .catch((err) => parts.log.error({ err, node }, 'cannot write rule hits; the edge node will resend them'))
      .finally(() => busy.delete(node))
  })
}

/** Bounded by readReport(). What a node names may be deleted by now, or never have been: that is left out when it is written. */
function countHits({ node, hits, allowed = [] }: Report, { hitBuffer, outcomeBuffer }: EdgeBuffers): void {
  for (const { restriction, target = '', source, outcome, count, lastAt } of hits) {
    const hit = { sourceIp: source, outcome, at: Date.parse(lastAt) }
    if (restriction !== null && isId('ipx', restriction))
      hitBuffer.count({ ...hit, restrictionId: toUuid(restriction), apiKeyId: null }, count)
    if (isTarget(target))
      hitBuffer.countAtEdge({ ...hit, edgeId: toUuid(target), byModule: restriction === null }, count)
    if (outcome === 'refused' && isTarget(target)) noteAtEdge(target, source, outcome, lastAt)
  }
  for (const { target, source, lastAt } of allowed) if (isTarget(target)) noteAtEdge(target, source, 'allowed', lastAt)
  function noteAtEdge(target: Id<'edgtcp' | 'edghtsrt'>, ip: string, outcome: 'allowed' | 'refused', at: string): void {
    outcomeBuffer.saw({ targetId: toUuid(target), node, ip, outcome, at: Date.parse(at) })
  }
}

const isTarget = (text: string): text is Id<'edgtcp' | 'edghtsrt'> => isId('edgtcp', text) || isId('edghtsrt', text)
