import { connect, type NatsConnection } from '@nats-io/transport-node'
import { defaultChannels, inboxOf } from '../../src/distribution/channels.ts'
import type { DroppedRequests, KeptRequest } from '../../src/distribution/request_batch.ts'
import type { EdgeRequest } from '../../src/distribution/requests.ts'
import { rfc3339 } from '../../src/kernel/clock.ts'
import { newUuid } from '../../src/kernel/ids.ts'
import { poll } from './poll.ts'

type Owner = { accountId: string }

/** A request as a node tells of it: refused by a policy of its HTTPS edge. */
export const edgeRequest = (
  { accountId }: Owner,
  edge: { id: string },
  fields: Partial<EdgeRequest> = {},
): EdgeRequest => ({
  id: newUuid(),
  at: rfc3339(Date.now()),
  node: 'edge-1',
  account: accountId as `ac_${string}`,
  edge: edge.id as `edghts_${string}`,
  route: null,
  source: '192.0.2.1',
  protocol: 'h2',
  method: 'GET',
  host: 'shop.example',
  path: '/cart',
  status: 403,
  durationMs: 2,
  bytesIn: 120,
  bytesOut: 80,
  upstream: null,
  outcome: 'refused',
  reason: 'policy',
  restriction: null,
  policy: null,
  rule: null,
  generation: 7,
  trace: null,
  ...fields,
})

/** The same, for code that has checked it. */
export const keptRequest = (...of: Parameters<typeof edgeRequest>): KeptRequest => edgeRequest(...of) as KeptRequest

/** A UUIDv7 of another moment than now. */
export function uuidAt(moment: number): string {
  const time = moment.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}${newUuid().slice(13)}`
}

type Batch = { batch?: string; dropped?: DroppedRequests[] }
/** A node's own connection, with the permissions of deploy/. */
export async function connectNode(scope: { after: (end: () => Promise<void>) => void }, servers: string) {
  const nats: NatsConnection = await connect({
    servers,
    user: 'edge-1',
    pass: 'edge-1',
    inboxPrefix: inboxOf('edge-1'),
  })
  scope.after(() => nats.close())
  return {
    nats,
    /** Sends a batch as the agent does, again and again until there is an answer, and resolves to the answer. */
    deliver(requests: unknown[], more: Batch = {}): Promise<string> {
      const batch = JSON.stringify({ node: 'edge-1', batch: newUuid(), dropped: [], requests, ...more })
      return poll(
        () =>
          nats.request(defaultChannels.requests('edge-1'), batch, { timeout: 3_000 }).then(
            (answer) => answer.string(),
            () => '',
          ),
        (answer) => answer !== '',
      )
    },
  }
}
