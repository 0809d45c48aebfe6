import type { Answers, Evidence } from '../../operations/rollouts.ts'

/** A rollout, as stored in the database. */
export type WatchedRollout = {
  /** The last wave that has it. */
  readonly reached: number
  readonly since: number
  readonly openUntil: number
  /** The generation that nodes of the wave must have applied. */
  readonly appliedAs: number
  readonly keys: ReadonlySet<string>
  /** When the wave got it, in milliseconds. */
  readonly beganAt: number
  /** When every node of the wave had applied it, in milliseconds. */
  readonly appliedAt: number | null
  /** The generation up to which the first wave's bucket has everything. */
  readonly sentUpTo: number
  /** Ignores effects on the account's clients. */
  readonly isUrgent: boolean
  /** Ignores everything. Only the operator can set this. */
  readonly isForced: boolean
}

/** The last report of a node that has the rollout. */
export type WatchedNode = {
  readonly name: string
  readonly wave: number
  readonly isLive: boolean
  readonly lastSeenAt: number
  readonly applied: number
  readonly refusals: readonly { readonly key: string; readonly generation: number | null; readonly reason: string }[]
  /** When this process learned that the node's HAProxy had exited, or differed from the agent's state. */
  readonly proxyLostAt?: number | undefined
  readonly differedAt?: number | undefined
  readonly differing: readonly { readonly what: string; readonly name: string }[]
  /** HAProxy has not been confirmed as correct again. */
  readonly differs: boolean
  /** When this process began to receive the node's counts. Undefined if the node does not count. */
  readonly heardSince?: number | undefined
}

/** Observed traffic of the rollout's account on the nodes that have it. */
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
    /** Requests that succeeded since, and the number expected in the same time at the rate of the minute before. */
    readonly succeeded: number
    readonly expected: number
    /**
     * Requests that ended, with any result, in the second half of the time since. Earlier ones may have begun before the
     * changes.
     */
    readonly lately: number
  }[]
}

export type Thresholds = {
  /** Null turns it off. */
  readonly haltAddresses: number | null
  readonly haltAddressesPercent: number | null
  readonly haltErrorsPercent: number | null
}

/** Minimum numbers: a single address or a single request proves nothing. */
const [fewestAddresses, fewestFailed, fewestRequests, fewestExpected] = [3, 5, 5, 10]
const addressesKept = 100

/** All evidence against the changes. */
export const signalsOf = (
  rollout: Pick<WatchedRollout, 'since' | 'keys' | 'beganAt'>,
  nodes: readonly WatchedNode[],
  { refused, answers }: Observed,
  thresholds: Thresholds,
): Evidence[] => [
  ...nodes.flatMap((node) => [...ofNode(rollout, node)]),
  ...refused.filter((each) => areTooMany(each, thresholds)).map(ofAddresses),
  ...answers.filter((each) => areWorse(each, thresholds)).map(ofAnswers),
  ...answers.filter((each) => areRejected(each, thresholds)).map(ofRejected),
]

/**
 * A target for which hardly any request ends any more, although many did before: they may wait for a response that never
 * comes.
 */
export const silentOf = ({ answers }: Observed) =>
  answers.find(({ lately, expected }) => expected >= fewestExpected && lately * 20 < expected)

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
 * Compares with the target's own past, because it may never have worked, and with nodes without the changes, because its
 * backend may have failed by itself.
 */
const areWorse = (seen: Observed['answers'][number], thresholds: Thresholds): boolean =>
  haveRisen(seen, thresholds, ({ failed }) => failed)

/**
 * Anyone can request pages that do not exist. Fewer requests must succeed as well, so that a scan alone halts nothing.
 */
const areRejected = (seen: Observed['answers'][number], thresholds: Thresholds): boolean =>
  seen.expected >= fewestExpected &&
  seen.succeeded * 2 < seen.expected &&
  haveRisen(seen, thresholds, ({ rejected = 0 }) => rejected)

function haveRisen(
  { before, since, elsewhere }: Observed['answers'][number],
  { haltErrorsPercent }: Thresholds,
  of: (answers: Answers) => number,
): boolean {
  if (haltErrorsPercent === null) return false
  const shareOf = (answers: Answers) => (answers.requests === 0 ? 0 : of(answers) / answers.requests)
  const rose = (from: Answers) => (shareOf(since) - shareOf(from)) * 100 >= haltErrorsPercent
  if (of(since) < fewestFailed || before.requests < fewestRequests || !rose(before)) return false
  return elsewhere.requests < fewestRequests || rose(elsewhere)
}

const ofAnswers = ({ node, target, before, since, elsewhere }: Observed['answers'][number]): Evidence => ({
  ...{ signal: 'answers', node, target, before, since, elsewhere },
  reason: `${since.failed} of ${since.requests} requests for ${target} failed on ${node}, and ${before.failed} of ${before.requests} before`,
})

function ofRejected({ node, target, before, since, elsewhere }: Observed['answers'][number]): Evidence {
  const shown = ({ rejected = 0, requests }: Answers) => `${rejected} of ${requests}`
  return {
    ...{ signal: 'answers', node, target, before, since, elsewhere },
    reason: `${shown(since)} requests for ${target} were answered with 4xx on ${node}, ${shown(before)} before, and fewer succeed`,
  }
}
