import type { NatsConnection } from '@nats-io/transport-node'
import type { Channels } from '../../distribution/channels.ts'
import type { EdgeRequest } from '../../distribution/requests.ts'
import { maxTailLines, type Tail, type TailLine } from '../../distribution/watches.ts'
import { createLeases } from './leases.ts'

const flushMs = 100
const windowMs = 1_000
/** Requests per second for each viewer, for all viewers of an account, and for the node. */
const perWindow = { watch: 100, account: 200, node: 1_000 }
/**
 * Sends requests to the control plane live, but only while someone watches them. Beyond a readable rate, it only counts
 * them for each viewer.
 */
export function createTail(node: string) {
  const leases = createLeases()
  let lines: TailLine[] = []
  let timer: NodeJS.Timeout | undefined
  let publish: (tail: Tail) => void = () => {}
  let windowBegan = 0
  let seenOfAccount = new Map<string, number>()
  let seenOfAll = 0

  function newWindow(now: number): void {
    windowBegan = now
    seenOfAccount = new Map()
    seenOfAll = 0
    leases.expire(now)
    for (const watch of leases.all()) watch.seen = 0
  }
  function see(request: EdgeRequest, now: number): void {
    if (request.account === null) return
    if (now - windowBegan >= windowMs) newWindow(now)
    const matching = leases.of(request.account).filter(({ matches }) => matches(request))
    if (matching.length === 0) return
    timer ??= setTimeout(flush, flushMs)
    const ofAccount = seenOfAccount.get(request.account) ?? 0
    const { true: shown = [], false: hidden = [] } = Object.groupBy(
      matching,
      ({ seen }) => `${ofAccount < perWindow.account && seenOfAll < perWindow.node && seen < perWindow.watch}` as const,
    )
    for (const watch of hidden) watch.dropped++
    if (shown.length === 0) return
    for (const watch of shown) watch.seen++
    seenOfAccount.set(request.account, ofAccount + 1)
    seenOfAll++
    lines.push({ watches: shown.map(({ id }) => id), request })
    if (lines.length === maxTailLines) flush()
  }
  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    const dropped: Tail['dropped'] = []
    for (const watch of leases.all())
      if (watch.dropped > 0) {
        dropped.push({ watch: watch.id, count: watch.dropped })
        watch.dropped = 0
      }
    if (lines.length > 0 || dropped.length > 0) publish({ node, lines, dropped })
    lines = []
  }

  return {
    /** Call this for every request of the node. Without a viewer of its account it costs one look-up. */
    add(request: EdgeRequest, now: number): void {
      if (!leases.isEmpty()) see(request, now)
    },
    connect(nats: NatsConnection, channels: Channels): void {
      publish = (tail) => {
        if (!nats.isClosed()) nats.publish(channels.tail(node), JSON.stringify(tail))
      }
      nats.subscribe(channels.watches, {
        callback: (error, message) => {
          if (!error) leases.renew(message.string(), Date.now())
        },
      })
    },
    watches: (): number => leases.all().length,
    stop(): void {
      clearTimeout(timer)
    },
  }
}
export type TailPublisher = ReturnType<typeof createTail>
