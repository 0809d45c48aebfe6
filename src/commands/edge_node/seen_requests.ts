import type { NatsConnection } from '@nats-io/transport-node'
import { createDelivery } from '../../agent/requests/delivery.ts'
import type { RequestFeed } from '../../agent/requests/feed.ts'
import { createKept } from '../../agent/requests/kept.ts'
import { createTail } from '../../agent/requests/tail.ts'
import type { Channels } from '../../distribution/channels.ts'

/** Single requests for the control plane: those worth a look, and those that are watched. */
export function createSeenRequests(node: string, feed: RequestFeed) {
  const kept = createKept(node)
  const tail = createTail(node)
  let delivery: ReturnType<typeof createDelivery> | undefined
  feed.subscribe((request) => {
    const now = Date.now()
    kept.add(request, now)
    tail.add(request, now)
  })
  return {
    connect(nats: NatsConnection, channels: Channels): void {
      delivery = createDelivery(nats, channels, kept)
      tail.connect(nats, channels)
    },
    async stop(): Promise<void> {
      tail.stop()
      await delivery?.stop()
    },
    metrics: (): Record<string, number> => ({
      gatehouse_edge_kept_requests_waiting: kept.counts().waiting,
      gatehouse_edge_kept_requests_dropped_total: kept.counts().dropped,
      gatehouse_edge_watches: tail.watches(),
    }),
  }
}
export type SeenRequests = ReturnType<typeof createSeenRequests>
