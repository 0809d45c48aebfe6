import type { DbPool } from '../../db/pool.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { EdgeNode } from '../../kernel/edge/edge_nodes.ts'
import type { Log } from '../../kernel/log.ts'
import type { Cell } from '../../operations/placement.ts'
import {
  type Evidence,
  haltRollout,
  noteApplied,
  openRollouts,
  RolloutFault,
  releaseRollout,
  type StoredRollout,
} from '../../operations/rollouts.ts'
import type { RecentTraffic } from '../nodes/recent_traffic.ts'
import { judge, type Verdict } from './judge.ts'
import { observe } from './observe.ts'
import type { WatchedRollout } from './signals.ts'
import { laterWaves } from './waves.ts'

type Parts = {
  db: DbPool
  nodes: () => readonly EdgeNode[]
  traffic: RecentTraffic
  clock: Clock
  log: Log
  onHalted: (evidence: readonly Evidence[]) => void
}

/**
 * Checks the open rollouts of these cells once, and carries out the verdicts. Resolves to whether something has to be
 * sent.
 */
export async function watchRollouts(parts: Parts, cells: readonly Cell[]): Promise<boolean> {
  const { db, nodes } = parts
  let isToSend = false
  let waves: ReadonlyMap<string, number> | undefined
  for (const cell of cells) {
    const rollouts = (await openRollouts(db, cell.id)).filter(({ is_first, reached }) => is_first && reached >= 0)
    if (rollouts.length === 0) continue
    waves ??= await laterWaves(db)
    const known = waves
    const inCell = nodes()
      .filter((node) => node.cell === cell.name)
      .map((node) => ({ ...node, wave: known.get(node.node) ?? 0 }))
    for (const rollout of rollouts) {
      const verdict = await verdictOf(parts, rollout, inCell)
      await act(parts, rollout, verdict)
      isToSend ||= verdict.verdict === 'release' || verdict.verdict === 'halt'
    }
  }
  return isToSend
}

async function verdictOf(
  { db, traffic, clock }: Parts,
  rollout: StoredRollout,
  nodes: readonly (EdgeNode & { wave: number })[],
): Promise<Verdict> {
  const now = clock()
  const having = nodes.filter(({ wave }) => wave <= rollout.reached)
  const observed = await observe(
    db,
    traffic,
    rollout,
    having.map(({ node }) => node),
    now,
  )
  return judge(
    watchedOf(rollout),
    having.map((node) => ({
      ...node,
      name: node.node,
      isLive: node.live,
      differing: node.differences?.latest ?? [],
      differs: node.differences !== undefined && node.differences.since !== null,
      heardSince: traffic.heardSince(node.cell, node.node),
    })),
    observed,
    {
      now,
      soakMs: rollout.soak_seconds * 1_000,
      haltAddresses: rollout.halt_addresses,
      haltAddressesPercent: rollout.halt_addresses_percent,
      haltErrorsPercent: rollout.halt_errors_percent,
    },
  )
}

const watchedOf = (rollout: StoredRollout): WatchedRollout => ({
  reached: rollout.reached,
  since: rollout.since,
  openUntil: rollout.open_until,
  appliedAs: Math.max(rollout.open_until, rollout.released_as),
  keys: new Set(rollout.keys),
  beganAt: Date.parse(rollout.moved_at),
  appliedAt: rollout.applied_at === null ? null : Date.parse(rollout.applied_at),
  sentUpTo: rollout.sent_up_to,
  isUrgent: rollout.is_urgent,
  isForced: rollout.is_forced,
})

async function act({ db, log, onHalted }: Parts, rollout: StoredRollout, verdict: Verdict): Promise<void> {
  const { id, account, cell } = rollout
  try {
    if (verdict.verdict === 'applied') await noteApplied(db, rollout)
    if (verdict.verdict === 'release') await releaseRollout(db, rollout, rollout.is_urgent ? 'all' : 'next')
    if (verdict.verdict !== 'halt') return
    await haltRollout(db, id, verdict, rollout)
    onHalted(verdict.evidence)
    log.error({ rollout: id, account, cell, reason: verdict.reason }, 'a rollout was halted')
  } catch (error) {
    // A user was faster.
    if (!(error instanceof RolloutFault)) throw error
  }
}
