import { Type } from 'typebox'
import { Closed, Id, QueryMoment, type Static, Timestamp } from '../../http/wire.ts'
import { errorKinds } from '../../kernel/edge/traffic.ts'
import { groupings, steps } from './store.ts'

const Count = (description: string) => Type.Integer({ description })
const Word = <const W extends string>(words: readonly W[], description: string) =>
  Type.Unsafe<W>({ type: 'string', enum: [...words], description })
const Nullable = (description: string) =>
  Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'], description }))

const errorsDescribed: Record<(typeof errorKinds)[number], string> = {
  backend_5xx: 'Answered by the backend with a status of 500 or above.',
  unreachable: 'No connection to the backend: refused, timed out, TLS failed, or all its servers are down.',
  no_response: 'The backend closed the connection without a response, or its response was broken or cut short.',
  timeout: 'The backend did not respond in time.',
  edge: 'Answered by the edge: the route has no backend, the node was shutting down or not ready, or failed.',
  client: 'Broken requests, and clients that left before the response.',
}
const Errors = Closed(
  Object.fromEntries(errorKinds.map((kind) => [kind, Count(errorsDescribed[kind])])) as Record<
    (typeof errorKinds)[number],
    ReturnType<typeof Count>
  >,
  { title: 'TrafficErrors', description: 'Each request is in one of them at most.' },
)
const Milliseconds = Type.Number({ description: 'Milliseconds, at most 2 % from the true value.' })
const Latency = Closed({ p50: Milliseconds, p95: Milliseconds, p99: Milliseconds }, { title: 'TrafficLatency' })

const Figures = {
  requests: Count('HTTP requests and TCP connections that ended, however.'),
  refused: Count('Refused by IP restrictions and filters.'),
  limited: Count('Over a limit, such as the rate limit of a route.'),
  errors: Errors,
  latency_ms: Type.Unsafe<Static<typeof Latency> | null>({
    anyOf: [Latency, { type: 'null' }],
    description:
      'From the arrival of an HTTP request to the end of its response. Without WebSockets, and requests that were refused, limited or not answered. Null if there were no others.',
  }),
}
export const Sums = Closed(Figures, { title: 'TrafficSums' })
const Point = Closed({ at: Timestamp, ...Figures }, { title: 'TrafficPoint' })

const Group = Closed(
  {
    edge_id: Nullable('By edge and route. Null for what was counted for the account alone.'),
    route_id: Nullable('By route. Null for a TCP edge.'),
    backend_id: Nullable('By backend. Null if there was none.'),
    node: Type.Optional(Type.String({ description: 'By node.' })),
    sums: Sums,
    points: Type.Array(Point, { description: 'Steps in which something ended, oldest first.' }),
  },
  { title: 'TrafficGroup' },
)
export type TrafficGroup = Static<typeof Group>

export const TrafficQuery = Closed({
  since: QueryMoment('Beginning, rounded down to a step. Default: 24 hours before until.'),
  until: QueryMoment('End. Default: now.'),
  step: Type.Optional(Word(steps, 'Length of the steps. A minute for the last 24 hours only. Omit it for sums alone.')),
  by: Type.Optional(Word(groupings, 'What to group by. Default: account.')),
  edge_id: Type.Optional(Id('edghts', 'edgtcp')),
  route_id: Type.Optional(Id('edghtsrt')),
  backend_id: Type.Optional(Id('bkdst', 'bkdwd', 'bkdfo', 'bkdhr')),
  node: Type.Optional(Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,62}$', 'x-must': 'must be the name of a node' })),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 100,
      description: 'Number of groups, those with the most requests first. Default: 10.',
    }),
  ),
})

export const TrafficStatistics = Closed(
  {
    since: Timestamp,
    until: Timestamp,
    counted_since: Type.Unsafe<string>({
      ...Timestamp,
      description: 'When this installation began to count. Traffic before then is unknown.',
    }),
    nodes_not_counting: Type.Integer({
      description:
        'Number of nodes in the cells of the account that are silent, or that do not count: their agent is too old, or reads only exceptions. Their traffic is unknown.',
    }),
    nodes_with_losses: Type.Integer({
      description: 'Number of nodes on which requests ended uncounted, because the agent could not keep up.',
    }),
    groups: Type.Array(Group, { description: 'Those with the most requests first. Empty if nothing was counted.' }),
    groups_total: Type.Integer({ description: 'Number of groups, including those beyond limit.' }),
  },
  { title: 'TrafficStatistics' },
)
