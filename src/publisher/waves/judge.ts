import type { Evidence } from '../../operations/rollouts.ts'
import {
  type Observed,
  signalsOf,
  silentOf,
  type Thresholds,
  type WatchedNode,
  type WatchedRollout,
} from './signals.ts'

export type Verdict =
  | { readonly verdict: 'wait'; readonly why: string }
  /** Every node of the wave has applied the changes, and the watch begins. */
  | { readonly verdict: 'applied' }
  | { readonly verdict: 'release' }
  | { readonly verdict: 'halt'; readonly reason: string; readonly evidence: readonly Evidence[] }

/** One account's urgent change must not crash HAProxy for all accounts. */
const urgentMs = 2_000
/**
 * Longer than a route waits for its backend by default. Traffic that stopped by itself delays a release no longer than
 * this.
 */
const silentMs = 90_000
const nothingObserved: Observed = { refused: [], answers: [] }

const wait = (why: string): Verdict => ({ verdict: 'wait', why })

/**
 * Decides about a rollout from the waves that have it. Missing information never releases a rollout: a node that has
 * been silent since the changes may have been stopped by them.
 */
export function judge(
  rollout: WatchedRollout,
  nodes: readonly WatchedNode[],
  observed: Observed,
  { now, soakMs, ...thresholds }: { now: number; soakMs: number } & Thresholds,
): Verdict {
  const { reached, openUntil, appliedAs, beganAt, appliedAt, sentUpTo, isUrgent, isForced } = rollout
  const evidence = signalsOf(rollout, nodes, isUrgent ? nothingObserved : observed, thresholds)
  const [first] = evidence
  if (first && !isForced) return { verdict: 'halt', reason: first.reason, evidence }
  // Before that, a restarted publisher would mix this rollout with later changes.
  if (sentUpTo < openUntil) return wait('the bucket of the first wave does not have it yet')
  if (isForced) return { verdict: 'release' }
  const inWave = nodes.filter(({ wave }) => wave === reached)
  const lost = inWave.find(({ isLive, lastSeenAt }) => !isLive && lastSeenAt >= beganAt)
  if (lost) return wait(`${lost.name} has not been heard of since it got the changes`)
  const live = inWave.filter(({ isLive }) => isLive)
  if (live.length === 0 && (reached === 0 || inWave.length > 0)) return wait(`no node of wave ${reached} is alive`)
  const behind = live.find(({ applied }) => applied < appliedAs)
  if (behind) return wait(`${behind.name} has not applied it yet`)
  const differing = live.find(({ differs }) => differs)
  if (differing) return wait(`HAProxy on ${differing.name} is not as it should be`)
  if (appliedAt === null) return { verdict: 'applied' }
  // Another process may have watched before, and this one lacks the counts that it received.
  const heardSince = isUrgent ? [] : live.map((node) => node.heardSince ?? 0)
  const left = Math.max(appliedAt, ...heardSince) + (isUrgent ? Math.min(urgentMs, soakMs) : soakMs) - now
  if (left > 0) return wait(`watching for ${Math.ceil(left / 1_000)} s more`)
  const silent = isUrgent || left <= -silentMs ? undefined : silentOf(observed)
  if (silent) return wait(`hardly any request for ${silent.target} ends any more`)
  return { verdict: 'release' }
}
