/** A rollout as far as the database knows it. */
export type WatchedRollout = {
  /** The last wave that has it. */
  readonly reached: number
  readonly since: number
  readonly openUntil: number
  /** What a node of the wave has to have applied. */
  readonly appliedAs: number
  readonly keys: ReadonlySet<string>
  /** When the wave got it, in milliseconds. */
  readonly beganAt: number
  /** When every node of the wave had applied it, in milliseconds. */
  readonly appliedAt: number | null
  /** Up to where the bucket of the first wave has everything. */
  readonly sentUpTo: number
  readonly isUrgent: boolean
}

/** What a node of the wave has said last. */
export type WatchedNode = {
  readonly name: string
  readonly isLive: boolean
  readonly lastSeenAt: number
  readonly applied: number
  readonly refusals: readonly { readonly key: string; readonly generation: number | null; readonly reason: string }[]
}

export type Evidence = { readonly node: string; readonly key: string; readonly reason: string }
export type Verdict =
  | { readonly verdict: 'wait'; readonly why: string }
  /** The watch begins. */
  | { readonly verdict: 'applied' }
  | { readonly verdict: 'release' }
  | { readonly verdict: 'halt'; readonly reason: string; readonly evidence: readonly Evidence[] }

const wait = (why: string): Verdict => ({ verdict: 'wait', why })

/**
 * What becomes of a rollout, from the last wave that has it. What is unknown never releases anything: a node that has not
 * been heard of since the changes began may have been stopped by them.
 */
export function judge(
  rollout: WatchedRollout,
  nodes: readonly WatchedNode[],
  { now, soakMs }: { now: number; soakMs: number },
): Verdict {
  const { reached, since, openUntil, appliedAs, keys, beganAt, appliedAt, sentUpTo, isUrgent } = rollout
  const evidence = nodes.flatMap(({ name, refusals }) =>
    refusals
      .filter(({ key, generation }) => generation !== null && generation >= since && keys.has(key))
      .map(({ key, reason }) => ({ node: name, key, reason })),
  )
  const [first] = evidence
  if (first && !isUrgent)
    return { verdict: 'halt', reason: `${first.node} refused ${first.key}: ${first.reason}`, evidence }
  // Before that, a restart of the publisher would mix it with later changes.
  if (sentUpTo < openUntil) return wait('the bucket of the first wave does not have it yet')
  if (isUrgent) return { verdict: 'release' }
  const silent = nodes.find(({ isLive, lastSeenAt }) => !isLive && lastSeenAt >= beganAt)
  if (silent) return wait(`${silent.name} has not been heard of since it got the changes`)
  const live = nodes.filter(({ isLive }) => isLive)
  if (live.length === 0 && (reached === 0 || nodes.length > 0)) return wait(`no node of wave ${reached} is alive`)
  const behind = live.find(({ applied }) => applied < appliedAs)
  if (behind) return wait(`${behind.name} has not applied it yet`)
  if (appliedAt === null) return { verdict: 'applied' }
  const left = appliedAt + soakMs - now
  return left > 0 ? wait(`watching for ${Math.ceil(left / 1_000)} s more`) : { verdict: 'release' }
}
