import type { Msg, MsgCallback, NatsConnection } from '@nats-io/transport-node'
import { allReports, type Report, senderOf } from '../../distribution/channels.ts'
import { readReport } from '../../distribution/report.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { EdgeNode, NodeStatus } from '../../kernel/edge/edge_nodes.ts'

/** Nodes report every second or two. Waits do not include a node that was silent for longer. */
export const liveForMs = 10_000
/** How often a waiting request checks whether the nodes that it waits for are still alive. */
const lookForDeadMs = 1_000
/** Requests that waited for the same change end together, and share one list of nodes. */
const listedForMs = 10
/** Dead nodes stay listed for a while, so that users see them. */
const rememberedForMs = 24 * 60 * 60 * 1_000

/** `answer` confirms to the node that the report has arrived. */
export type ReportListener = (report: Report, cell: string, answer: (text: string) => void) => void

export type CellNames = ReadonlySet<string>

/** The edge nodes as every process knows them, from the nodes' own reports. */
export type EdgeNodes = {
  all: () => readonly EdgeNode[]
  /** Which live nodes of these cells have applied a generation. */
  status: (generation: number, cells: CellNames) => NodeStatus
  /** Resolves once every live node of these cells has applied the generation, or after the timeout. */
  waitFor: (generation: number, cells: CellNames, timeoutMs: number) => Promise<NodeStatus>
  onReport: (listener: ReportListener) => void
  remember: (nodes: readonly EdgeNode[]) => void
  /** Nodes that get changes later than others, and therefore do not count for the status of a change. */
  setLater: (names: ReadonlySet<string>) => void
  listen: (nats: NatsConnection) => void
}

/** The nodes, sorted by name. */
function createRegister(clock: Clock) {
  let nodes = new Map<string, KnownNode>()
  let isInOrder = true
  function set(node: KnownNode): void {
    if (!nodes.has(node.node)) isInOrder = false
    nodes.set(node.node, node)
    listed = undefined
  }
  let listed: { at: number; all: readonly EdgeNode[] } | undefined
  const all = (): readonly EdgeNode[] => {
    const now = clock()
    if (listed && Math.abs(now - listed.at) < listedForMs) return listed.all
    for (const [name, { lastSeenAt }] of nodes) if (now - lastSeenAt > rememberedForMs) nodes.delete(name)
    if (!isInOrder) nodes = new Map([...nodes].sort(([a], [b]) => (a < b ? -1 : 1)))
    isInOrder = true
    listed = {
      at: now,
      all: [...nodes.values()].map((node) => ({ ...node, live: now - node.lastSeenAt <= liveForMs })),
    }
    return listed.all
  }
  return { nodes: (): ReadonlyMap<string, KnownNode> => nodes, set, all }
}

/** Calls `onDropped` for rejected input: a whole report, or the number of its dropped counts and refusals. */
export function watchNodes(clock: Clock, onDropped: (node: string, dropped: 'report' | number) => void): EdgeNodes {
  const { nodes, set, all } = createRegister(clock)
  let later: ReadonlySet<string> = new Set()
  const listeners: ReportListener[] = []
  const waiting = new Set<Waiter>()
  const onMessage: MsgCallback<Msg> = (error, message) => {
    if (error) return
    const read = readReport(message.string(), message.subject, clock())
    const { cell, node: name } = senderOf(message.subject)
    if (!read || read.dropped > 0) onDropped(name, read ? read.dropped : 'report')
    if (!read) return
    const { report } = read
    const node = knownFrom(report, cell, nodes().get(report.node), clock())
    set(node)
    for (const listener of listeners) listener(report, cell, (answer) => message.respond(answer))
    for (const waiter of waiting) waiter.reported(node)
  }

  const isAsked = (node: KnownNode, cells: CellNames) => cells.has(node.cell) && !later.has(node.node)
  const status = (generation: number, cells: CellNames): NodeStatus => {
    const live = all().filter((node) => node.live && isAsked(node, cells))
    return statusOf(live, generation)
  }
  const behindNow = (generation: number, cells: CellNames): Set<string> => {
    const now = clock()
    const isBehind = (node: KnownNode) =>
      isAsked(node, cells) && now - node.lastSeenAt <= liveForMs && !hasApplied(node, generation)
    return new Set([...nodes().values()].filter(isBehind).map(({ node }) => node))
  }

  return {
    all,
    status,
    waitFor: (generation, cells, timeoutMs) =>
      new Promise((resolve) => {
        let behind = behindNow(generation, cells)
        let lookedAt = clock()
        const finish = () => {
          waiting.delete(waiter)
          clearTimeout(timer)
          resolve(status(generation, cells))
        }
        const waiter: Waiter = {
          reported(node) {
            if (!isAsked(node, cells)) return
            if (hasApplied(node, generation)) behind.delete(node.node)
            else behind.add(node.node)
            if (clock() - lookedAt >= lookForDeadMs) [behind, lookedAt] = [behindNow(generation, cells), clock()]
            if (behind.size === 0) finish()
          },
        }
        const timer = setTimeout(finish, timeoutMs)
        if (behind.size === 0) finish()
        else waiting.add(waiter)
      }),
    onReport: (listener) => listeners.push(listener),
    remember(known) {
      for (const { live: _, ...node } of known) if (!nodes().has(node.node)) set(node)
    },
    setLater(names) {
      later = names
    },
    listen(nats) {
      for (const subject of allReports) nats.subscribe(subject, { callback: onMessage })
    },
  }
}

function statusOf(live: EdgeNode[], generation: number): NodeStatus {
  const { true: applied = [], false: behind = [] } = Object.groupBy(
    live,
    (node) => `${hasApplied(node, generation)}` as const,
  )
  return { live, applied, behind }
}

function knownFrom(report: Report, cell: string, before: KnownNode | undefined, now: number): KnownNode {
  const { hits: _, health: __, ruleHits: ___, allowed: ____, traffic: _____, ...rest } = report
  return { ...rest, cell, lastSeenAt: now, ...troublesOf(before, report, now) }
}

/** Counters restart with the agent. Those of a node seen for the first time may be of any age. */
function troublesOf(
  before: KnownNode | undefined,
  { startedAt, proxyLosses, differences }: Pick<Report, 'startedAt' | 'proxyLosses' | 'differences'>,
  now: number,
): Pick<KnownNode, 'proxyLostAt' | 'differedAt'> {
  const isNewAgent = before !== undefined && Date.parse(before.startedAt) !== Date.parse(startedAt)
  const isMore = (count = 0, known = count) => count > (isNewAgent ? 0 : known)
  const proxyLostAt = isMore(proxyLosses, before?.proxyLosses) ? now : before?.proxyLostAt
  const differedAt = isMore(differences?.found, before?.differences?.found) ? now : before?.differedAt
  return { ...(proxyLostAt !== undefined && { proxyLostAt }), ...(differedAt !== undefined && { differedAt }) }
}

type KnownNode = Omit<EdgeNode, 'live'>
/** A request that waits for nodes. It costs one look-up per report, because a change makes all nodes report together. */
type Waiter = { reported: (node: KnownNode) => void }

/** A record that a node refused is not in force there, however far the node has come. */
export const hasApplied = (node: KnownNode, generation: number): boolean =>
  node.applied >= generation && !mayHaveRefused(node, generation)

/** If a node cannot list all its refusals, unlisted generations count as refused: unknown is not in force. */
function mayHaveRefused({ refusals, refused }: KnownNode, generation: number): boolean {
  if (refusals.some((refusal) => refusal.generation === generation)) return true
  if (!refused || refused.lowest === null) return false
  const [first = refused.lowest] = refused.generations
  return refused.generations.includes(generation) || (generation >= refused.lowest && generation < first)
}
