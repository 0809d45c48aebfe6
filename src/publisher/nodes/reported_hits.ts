import type { HitBuffer } from '../../access/evidence/hit_buffer.ts'
import { createHitSums, type HitSums } from '../../access/evidence/hit_sums.ts'
import type { OutcomeBuffer } from '../../access/evidence/outcome_buffer.ts'
import { addReportedHits } from '../../access/evidence/reported_hits.ts'
import { addReportedRuleHits } from '../../access/evidence/rule_hits.ts'
import type { DbPool } from '../../db/pool.ts'
import { type EdgeHit, kept, keptHits, keptRuleHits, type Report } from '../../distribution/channels.ts'
import type { Clock } from '../../kernel/clock.ts'
import { type Id, isId, toUuid, type Uuid } from '../../kernel/ids.ts'
import type { Log } from '../../kernel/log.ts'
import type { EdgeNodes } from './nodes.ts'

export type EdgeBuffers = { hitBuffer: HitBuffer; outcomeBuffer: OutcomeBuffer }

/** True if this process is the active publisher of the cell. */
export type IsActive = (cell: string) => boolean

/** Only the cell's active publisher adds up the counts of a node; otherwise every process would add them. */
export function takeHits(nodes: Pick<EdgeNodes, 'onReport'>, buffers: EdgeBuffers, isActive: IsActive): void {
  nodes.onReport((report, cell, answer) => {
    if (!isActive(cell)) return
    if (!report.hitBatch) countHits(report.hits, buffers.hitBuffer)
    noteAddresses(report, buffers.outcomeBuffer)
    if (!report.hitBatch && !report.ruleHits && !report.traffic) answer(kept)
  })
}

type Parts = { db: DbPool; clock: Clock; log: Pick<Log, 'error'> }

/** Answers numbered counts once they are in the database. Until then the node sends them again. */
export function saveHits(nodes: Pick<EdgeNodes, 'onReport'>, { db, clock, log }: Parts, isActive: IsActive): void {
  const whileNotBusy = (
    kind: string,
    save: (report: Report) => { saved: Promise<unknown>; is: string } | undefined,
  ) => {
    const busy = new Set<string>()
    nodes.onReport((report, cell, answer) => {
      const { node } = report
      const saving = isActive(cell) && !busy.has(node) ? save(report) : undefined
      if (!saving) return
      busy.add(node)
      saving.saved
        .then(() => answer(saving.is))
        .catch((err) => log.error({ err, node }, `cannot write ${kind}; the edge node will resend them`))
        .finally(() => busy.delete(node))
    })
  }
  whileNotBusy('hits', ({ node, hits, hitBatch }) => {
    if (!hitBatch) return undefined
    const sums = createHitSums(Number.POSITIVE_INFINITY, () => {})
    countHits(hits, sums)
    return { saved: addReportedHits(db, { node, ...hitBatch }, sums, clock()), is: keptHits(hitBatch.batch) }
  })
  whileNotBusy('rule hits', ({ node, ruleHits }) => {
    if (!ruleHits) return undefined
    const hits = ruleHits.hits.map(({ account, rule, ...hit }) => ({
      ...hit,
      accountId: toUuid(account as Id<'ac'>),
      ruleId: toUuid(rule as Id<'ipr'>),
    }))
    const { sender, batch } = ruleHits
    const saved = addReportedRuleHits(db, { node, sender: sender as Uuid, batch, hits }, clock())
    return { saved, is: keptRuleHits(batch) }
  })
}

/** Bounded by readReport(). Ids that are deleted by now, or never existed, are dropped when the counts are written. */
function countHits(hits: readonly EdgeHit[], into: Pick<HitSums, 'count' | 'countAtEdge'>): void {
  for (const { restriction, target = '', source, outcome, count, lastAt } of hits) {
    const hit = { sourceIp: source, outcome, at: Date.parse(lastAt) }
    if (restriction !== null && isId('ipx', restriction))
      into.count({ ...hit, restrictionId: toUuid(restriction), apiKeyId: null }, count)
    if (isTarget(target)) into.countAtEdge({ ...hit, edgeId: toUuid(target), byModule: restriction === null }, count)
  }
}

/** Idempotent, because it does not add anything up. */
function noteAddresses({ node, hits, allowed = [] }: Report, outcomes: Pick<OutcomeBuffer, 'saw'>): void {
  const note = (target = '', ip: string, outcome: 'allowed' | 'refused', lastAt: string) => {
    if (isTarget(target)) outcomes.saw({ targetId: toUuid(target), node, ip, outcome, at: Date.parse(lastAt) })
  }
  for (const { target, source, outcome, lastAt } of hits)
    if (outcome === 'refused') note(target, source, outcome, lastAt)
  for (const { target, source, lastAt } of allowed) note(target, source, 'allowed', lastAt)
}

const isTarget = (text: string): text is Id<'edgtcp' | 'edghtsrt'> => isId('edgtcp', text) || isId('edghtsrt', text)
