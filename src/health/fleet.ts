import { rfc3339 } from '../kernel/clock.ts'
import type { EdgeNode } from '../kernel/edge/edge_nodes.ts'
import { because, counted, degraded, down, listed, type Rollout, type Status, unknown, up, worstOf } from './status.ts'

/** The part of a node's state that one account may see. All reasons and names belong to that account. */
export type NodeFacts = {
  readonly node: string
  readonly cell: string
  readonly live: boolean
  readonly lastSeenAt: string
  /** The node lacks a change of the account that it should have applied by now. */
  readonly isBehind: boolean
  readonly hasStorageFault: boolean
  /** The account's records that the node rejected, by key. */
  readonly refused: ReadonlyMap<string, string>
  /** The node rejected a record of the account without naming it. */
  readonly refusedUnlisted: boolean
  /**
   * The account's names for which the node has no certificate. `isComplete`: there are no others. Undefined: unknown.
   */
  readonly uncovered: { readonly names: ReadonlySet<string>; readonly isComplete: boolean } | undefined
}
export type Fleet = {
  /** Whether this process receives reports of nodes. */
  readonly isConnected: boolean
  readonly nodes: readonly NodeFacts[]
}

export const liveNodes = ({ nodes }: Fleet): NodeFacts[] => nodes.filter(({ live }) => live)
const namesOf = (nodes: readonly NodeFacts[]): string => listed(nodes.map(({ node }) => node))

/** Why the state of nodes is unknown; undefined while at least one reports. */
export function silence(fleet: Fleet): Status | undefined {
  if (liveNodes(fleet).length > 0) return undefined
  if (!fleet.isConnected)
    return unknown(
      'control_plane_blind',
      'The control plane is not connected to NATS, so it does not hear from edge nodes.',
    )
  if (fleet.nodes.length === 0) return down('no_nodes', 'No edge node has reported, so nothing receives traffic.')
  const last =
    fleet.nodes
      .map(({ lastSeenAt }) => lastSeenAt)
      .sort()
      .at(-1) ?? null
  return unknown('no_live_node', 'No edge node reports. Nodes that still run keep what they have.', last)
}

/**
 * State of these records on nodes. The cause is irrelevant to an edge: a change that a node lacks is not in force
 * there.
 */
export function onNodes(
  fleet: Fleet,
  keys: readonly string[],
  { withheld, rollouts }: { withheld: ReadonlyMap<string, string>; rollouts: ReadonlyMap<string, Rollout> },
): Status {
  const found = keys.flatMap((key) => rollouts.get(key) ?? [])
  const rollout = found.find(({ state }) => state === 'halted') ?? found[0]
  const status = withoutRollouts(fleet, keys, withheld)
  if (!rollout) return status
  const { id, state, reason } = rollout
  if (state === 'watching') return { ...status, rollout }
  const text = `The rollout ${id} of a change was halted, so nodes have what was there before${because(reason)}`
  return { ...worstOf(status, degraded('rollout_halted', text)), rollout }
}

function withoutRollouts(fleet: Fleet, keys: readonly string[], withheld: ReadonlyMap<string, string>): Status {
  const live = liveNodes(fleet)
  const silent = silence(fleet)
  if (silent) return silent
  return worstOf(
    refusal(live, keys),
    ...keys.flatMap((key) => {
      const reason = withheld.get(key)
      return reason === undefined
        ? []
        : [degraded('record_withheld', `The control plane cannot send it to edge nodes${because(reason)}`)]
    }),
    absence(fleet),
    lag(live),
  )
}

/** One node from the account's point of view. */
export function statusForAccount(node: NodeFacts, { isConnected }: Fleet): Status {
  const alone = { isConnected, nodes: [node] }
  return node.live ? worstOf(refusal([node], [...node.refused.keys()]), lag([node])) : absence(alone)
}

const fine = up('Every edge node has applied every change that is due.')

function refusal(live: readonly NodeFacts[], keys: readonly string[]): Status {
  const refusing = live.filter(({ refused }) => keys.some((key) => refused.has(key)))
  const [first] = refusing
  if (first) {
    const reason = keys.map((key) => first.refused.get(key)).find((each) => each !== undefined)
    const text = `${namesOf(refusing)} rejected it and ${refusing.length === 1 ? 'keeps' : 'keep'} what was there before${because(reason)}`
    return refusing.length === live.length ? down('record_refused', text) : degraded('record_refused', text)
  }
  const silent = live.filter(({ refusedUnlisted }) => refusedUnlisted)
  if (silent.length === 0) return fine
  return degraded('record_refused', `${namesOf(silent)} rejected changes of this account and cannot list all of them.`)
}

function absence({ nodes, isConnected }: Fleet): Status {
  const away = nodes.filter(({ live }) => !live)
  if (away.length === 0) return fine
  const since = away.map(({ lastSeenAt }) => lastSeenAt).sort()[0] ?? null
  const has = away.length === 1 ? 'has' : 'have'
  const text = `${namesOf(away)} ${has} stopped reporting, so what ${away.length === 1 ? 'it serves' : 'they serve'} is not known.`
  return isConnected ? degraded('node_away', text, since) : unknown('control_plane_blind', text, since)
}

function lag(live: readonly NodeFacts[]): Status {
  const failing = live.filter(({ hasStorageFault }) => hasStorageFault)
  if (failing.length > 0)
    return degraded(
      'storage_fault',
      `${namesOf(failing)} cannot write to disk and ${failing.length === 1 ? 'applies' : 'apply'} no changes.`,
    )
  const behind = live.filter(({ isBehind }) => isBehind)
  if (behind.length === 0) return fine
  return degraded(
    'node_behind',
    `${namesOf(behind)} ${behind.length === 1 ? 'has' : 'have'} not applied the latest changes of this account.`,
  )
}

type NodeAsSeen = Pick<
  EdgeNode,
  | 'live'
  | 'lastSeenAt'
  | 'applied'
  | 'refusals'
  | 'refused'
  | 'storageFault'
  | 'differences'
  | 'emergencies'
  | 'shutLimits'
  | 'certificates'
>
export type NodeContext = {
  readonly isConnected: boolean
  /** The newest generation that every node should have applied by now. */
  readonly due: number
  /** Null: the node has no key. */
  readonly isKeyAccepted: boolean | null
}

type Installation = { readonly isConnected: boolean; readonly due: number; readonly accepted: ReadonlySet<string> }

/** `accepted`: entries `node key` for accepted keys. */
export const statusOfNode = (node: EdgeNode, { isConnected, due, accepted }: Installation): Status =>
  nodeStatus(node, {
    ...{ isConnected, due },
    isKeyAccepted: node.nodeKey === undefined ? null : accepted.has(`${node.node} ${node.nodeKey}`),
  })

/** The node itself from the operator's point of view, including the records of all accounts. */
export function nodeStatus(node: NodeAsSeen, { isConnected, due, isKeyAccepted }: NodeContext): Status {
  const lastSeenAt = rfc3339(node.lastSeenAt)
  if (!node.live && !isConnected)
    return unknown(
      'control_plane_blind',
      'The control plane is not connected to NATS, so it does not hear from the node.',
      lastSeenAt,
    )
  if (!node.live)
    return down('node_away', 'It has stopped reporting. If it still runs, it keeps enforcing what it has.', lastSeenAt)
  const rejected = node.refused?.records ?? node.refusals.length
  const missing = node.certificates?.missing ?? 0
  const unusable = node.certificates?.waiting ?? 0
  return worstOf(
    up('It reports and has applied every change that is due.'),
    ...(node.storageFault
      ? [degraded('storage_fault', `It cannot write to its disk and applies no changes${because(node.storageFault)}`)]
      : []),
    ...(node.differences?.since
      ? [
          degraded(
            'proxy_differs',
            'Another program changed its HAProxy, and no complete comparison has found it right since.',
            node.differences.since,
          ),
        ]
      : []),
    ...(node.emergencies ?? []).map(({ id, ranges, expiresAt }) =>
      degraded(
        'emergency',
        `By emergency order ${id}, it refuses ${counted(ranges, 'range')} of addresses until ${expiresAt}.`,
      ),
    ),
    ...(node.shutLimits
      ? [
          degraded(
            'limits_shut',
            `It does not know how many nodes share limits of its cell, and lets no one through to ${counted(node.shutLimits, 'route or TCP edge', 'routes and TCP edges')} with such a limit.`,
          ),
        ]
      : []),
    ...(rejected > 0
      ? [degraded('record_refused', `It rejected ${counted(rejected, 'record')} and keeps what was there before.`)]
      : []),
    ...(node.applied < due
      ? [degraded('node_behind', `It has applied generation ${node.applied}, and generation ${due} is due.`)]
      : []),
    ...(isKeyAccepted === false
      ? [degraded('node_key_waiting', 'Its key is not accepted, so it gets no certificates.')]
      : []),
    ...(unusable > 0 ? [degraded('certificate_missing', `It cannot use ${counted(unusable, 'certificate')}.`)] : []),
    ...(missing > 0
      ? [degraded('certificate_missing', `It has no certificate for ${counted(missing, 'name')} of HTTPS edges.`)]
      : []),
    ...(node.refused ? [] : [unknown('record_refused', 'Its version does not say what it rejected.')]),
  )
}
