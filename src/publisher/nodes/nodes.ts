import type { Msg, MsgCallback, NatsConnection } from '@nats-io/transport-node'
import { allReportsSubject, type Report } from '../../distribution/channels.ts'
import { readReport } from '../../distribution/report.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { EdgeNode, NodeStatus } from '../../kernel/edge/edge_nodes.ts'

/** Reports come every second or two. A node that was silent for longer is not waited for. */
export const liveForMs = 10_000
/** Dead nodes are shown for a while, so that one sees that they are. */
const rememberedForMs = 24 * 60 * 60 * 1_000

/** `answer`: for the node, that it has arrived. */
export type ReportListener = (report: Report, answer: (text: string) => void) => void

/** What every process knows of the edge nodes, from their own reports. */
export type EdgeNodes = {
  all: () => EdgeNode[]
  /** Who has applied a generation, of those that are alive. */
  status: (generation: number) => NodeStatus
  /** Resolves when every live node has applied it, or when the time is over. */
  waitFor: (generation: number, timeoutMs: number) => Promise<NodeStatus>
  onReport: (listener: ReportListener) => void
  remember: (nodes: readonly EdgeNode[]) => void
  /** From then on reports come in. */
  listen: (nats: NatsConnection) => void
}

/** `onDropped` is called for what a node sent and was not taken in: a whole report, or some of its counts and refusals. */
export function watchNodes(clock: Clock, onDropped: (node: string, dropped: 'report' | number) => void): EdgeNodes {
  const nodes = new Map<string, Omit<EdgeNode, 'live'>>()
  const listeners: ReportListener[] = []
  const waiting = new Set<() => void>()
  const onMessage: MsgCallback<Msg> = (error, message) => {
    if (error) return
    const read = readReport(message.string(), message.subject, clock())
    if (!read || read.dropped > 0) onDropped(message.subject.split('.').at(-1) ?? '', read ? read.dropped : 'report')
    if (!read) return
    const { report } = read
    const { hits: _, health: __, ruleHits: ___, allowed: ____, ...rest } = report
    nodes.set(report.node, { ...rest, lastSeenAt: clock() })
    for (const listener of listeners) listener(report, (answer) => message.respond(answer))
    for (const check of waiting) check()
  }

  const all = (): EdgeNode[] => {
    const now = clock()
    for (const [name, { lastSeenAt }] of nodes) if (now - lastSeenAt > rememberedForMs) nodes.delete(name)
    return [...nodes.values()]
      .map((node) => ({ ...node, live: now - node.lastSeenAt <= liveForMs }))
      .sort((a, b) => (a.node < b.node ? -1 : 1))
  }
  const status = (generation: number): NodeStatus => {
    const live = all().filter((node) => node.live)
    // What a node refused is not in force there, however far it has come otherwise.
    const isApplied = (node: EdgeNode) => node.applied >= generation && !mayHaveRefused(node, generation)
    const { true: applied = [], false: behind = [] } = Object.groupBy(live, (node) => `${isApplied(node)}` as const)
    return { live, applied, behind }
  }

  return {
    all,
    status,
    waitFor: (generation, timeoutMs) =>
      new Promise((resolve) => {
        const finish = () => {
          waiting.delete(check)
          clearTimeout(timer)
          resolve(status(generation))
        }
        const check = () => status(generation).behind.length === 0 && finish()
        const timer = setTimeout(finish, timeoutMs)
        waiting.add(check)
        check()
      }),
    onReport: (listener) => listeners.push(listener),
    remember(known) {
      for (const { live: _, ...node } of known) if (!nodes.has(node.node)) nodes.set(node.node, node)
    },
    listen: (nats) => void nats.subscribe(allReportsSubject, { callback: onMessage }),
  }
}

/** Where a node cannot list all that it refused, what it does not list counts as refused: unknown is not in force. */
function mayHaveRefused({ refusals, refused }: EdgeNode, generation: number): boolean {
  if (refusals.some((refusal) => refusal.generation === generation)) return true
  if (!refused || refused.lowest === null) return false
  const [first = refused.lowest] = refused.generations
  return refused.generations.includes(generation) || (generation >= refused.lowest && generation < first)
}
