import type { Answers, Evidence } from '../../operations/rollouts.ts'

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
  /** What its account's clients see does not matter. */
  readonly isUrgent: boolean
  /** Nothing matters. Only the operator can say so. */
  readonly isForced: boolean
}

/** What a node that has the rollout has said last. */
export type WatchedNode = {
  readonly name: string
  readonly wave: number
  readonly isLive: boolean
  readonly lastSeenAt: number
  readonly applied: number
  readonly refusals: readonly { readonly key: string; readonly generation: number | null; readonly reason: string }[]
  /** When we learned that its HAProxy had ended, and that it was not as it should be. */
  readonly proxyLostAt?: number | undefined
  readonly differedAt?: number | undefined
  /** What was not as it should be; the last ones. */
  readonly differing: readonly { readonly what: string; readonly name: string }[]
  /** HAProxy is not known to be as it should be again. */
  readonly differs: boolean
  /** From when on we know what it answers. Undefined if it does not count that. */
  readonly heardSince?: number | undefined
}

/** What is known of the traffic of the rollout's account on the nodes that have it. */
export type Observed = {
  readonly refused: readonly {
    readonly node: string
    readonly target: string
    readonly addresses: readonly string[]
    readonly letIn: number
  }[]
  readonly answers: readonly {
    readonly node: string
    readonly target: string
    readonly before: Answers
    readonly since: Answers
    readonly elsewhere: Answers
  }[]
}

export type Thresholds = {
  /** Null: off. */
  readonly haltAddresses: number | null
  readonly haltAddressesPercent: number | null
  readonly haltErrorsPercent: number | null
}

/** One address of one, or one request of one, says nothing. */
const [fewestAddresses, fewestFailed, fewestRequests] = [3, 5, 5]
const addressesKept = 100

/** Everything that speaks against the changes. */
export const signalsOf = (
  rollout: Pick<WatchedRollout, 'since' | 'keys' | 'beganAt'>,
  nodes: readonly WatchedNode[],
  { refused, answers }: Observed,
  thresholds: Thresholds,
): Evidence[] => [
  ...nodes.flatMap((node) => [...ofNode(rollout, node)]),
  ...refused.filter((each) => areTooMany(each, thresholds)).map(ofAddresses),
  ...answers.filter((each) => areWorse(each, thresholds)).map(ofAnswers),
]

function* ofNode(
  { since, keys, beganAt }: Pick<WatchedRollout, 'since' | 'keys' | 'beganAt'>,
  { name, refusals, proxyLostAt = 0, differedAt = 0, differing }: WatchedNode,
): Generator<Evidence> {
  for (const { key, generation, reason } of refusals)
    if (generation !== null && generation >= since && keys.has(key))
      yield { signal: 'record', node: name, key, reason: `${name} refused ${key}: ${reason}` }
  if (proxyLostAt >= beganAt)
    yield { signal: 'proxy', node: name, reason: `HAProxy ended on ${name} after it got the changes` }
  const ids = [...keys].map((key) => key.slice(key.indexOf('.') + 1))
  if (differedAt >= beganAt)
    for (const { what, name: entry } of differing)
      if (ids.some((id) => entry.includes(id))) {
        const reason = `HAProxy on ${name} did not have what it should: ${what} ${entry}`
        yield { signal: 'difference', node: name, reason }
      }
}

const areTooMany = (
  { addresses, letIn }: Observed['refused'][number],
  { haltAddresses, haltAddressesPercent }: Thresholds,
): boolean =>
  addresses.length >= fewestAddresses &&
  ((haltAddresses !== null && addresses.length >= haltAddresses) ||
    (haltAddressesPercent !== null && addresses.length * 100 >= letIn * haltAddressesPercent))

function ofAddresses({ node, target, addresses, letIn }: Observed['refused'][number]): Evidence {
  const refused = addresses.length
  return {
    ...{ signal: 'addresses', node, target, refused, let_in: letIn, addresses: addresses.slice(0, addressesKept) },
    reason: `${node} refuses ${refused} of ${letIn} addresses that ${target} let in lately`,
  }
}

/**
 * Against itself before, or it may never have worked; and against nodes that do not have the changes, or its backend may have
 * failed by itself.
 */
function areWorse(
  { before, since, elsewhere }: Observed['answers'][number],
  { haltErrorsPercent }: Thresholds,
): boolean {
  if (haltErrorsPercent === null) return false
  const rose = (from: Answers) => (shareOf(since) - shareOf(from)) * 100 >= haltErrorsPercent
  if (since.failed < fewestFailed || before.requests < fewestRequests || !rose(before)) return false
  return elsewhere.requests < fewestRequests || rose(elsewhere)
}
const shareOf = ({ requests, failed }: Answers): number => (requests === 0 ? 0 : failed / requests)

const ofAnswers = ({ node, target, before, since, elsewhere }: Observed['answers'][number]): Evidence => ({
  ...{ signal: 'answers', node, target, before, since, elsewhere },
  reason: `${since.failed} of ${since.requests} requests for ${target} failed on ${node}, and ${before.failed} of ${before.requests} before`,
})
