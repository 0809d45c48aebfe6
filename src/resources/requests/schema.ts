import { Type } from 'typebox'
import { requestOutcomes, requestProtocols } from '../../distribution/requests.ts'
import {
  Closed,
  Id,
  ListOf,
  PageParameters,
  QueryMoment,
  type Ref,
  RefOrNull,
  type Static,
  Timestamp,
  Uri,
} from '../../http/wire.ts'

const Nullable = <Value>(type: 'string' | 'integer', description: string) =>
  Type.Unsafe<Value | null>({ type: [type, 'null'], description })
const RefTo = (description: string) => Type.Unsafe<Static<typeof Ref> | null>({ ...RefOrNull, description })
const Outcome = Type.Unsafe<(typeof requestOutcomes)[number]>({
  type: 'string',
  enum: [...requestOutcomes],
  description:
    'refused: by IP policies. warned: a restriction or a module of the edge or route that only warns would have refused it. limited: too many at once, or more than the rate limit of the route. failed: by the edge, the upstream or the client; see reason.',
})

export const Request = Closed(
  {
    id: Type.String({
      description: 'The X-Request-Id that the client and the upstream got. For a call of the API, its operation id.',
    }),
    uri: Uri,
    created_at: Timestamp,
    outcome: Outcome,
    reason: Nullable<string>(
      'string',
      'Why it was refused, limited or failed, as one word such as policy or connect_failed.',
    ),
    node: Nullable<string>('string', 'The edge node. Null for a call of the API.'),
    edge: RefTo('The edge. It may have been deleted since. Null for a call of the API.'),
    route: RefTo('The route that matched. Null for TCP, if none matched, and for a call of the API.'),
    operation: Nullable<string>('string', 'For a call of the API, the operation, such as api_keys.list.'),
    source_ip: Nullable<string>(
      'string',
      'The source address that policies decided about. Null for members and viewers.',
    ),
    protocol: Type.Unsafe<(typeof requestProtocols)[number] | null>({
      type: ['string', 'null'],
      enum: [...requestProtocols, null],
    }),
    method: Nullable<string>('string', 'Null for TCP.'),
    host: Nullable<string>('string', 'The requested host name. Null for TCP.'),
    path: Nullable<string>('string', 'The path without its query, at most 1024 bytes. Null for TCP.'),
    status_code: Nullable<number>('integer', 'The status of the response. Null for TCP, and if there was none.'),
    duration_ms: Nullable<number>('integer', 'From its arrival to the end of the response.'),
    bytes_in: Nullable<number>('integer', 'Bytes that the client sent.'),
    bytes_out: Nullable<number>('integer', 'Bytes that the client received.'),
    upstream: Nullable<string>('string', 'Address and port of the upstream that was dialed.'),
    ip_restriction: RefTo(
      "The account's restriction that decided. Null if the policies of the edge or route did, or none.",
    ),
    ip_policy: RefTo('The policy that decided.'),
    ip_policy_rule: RefTo('The rule that decided. Null if no rule matched, or none was asked.'),
    generation: Nullable<number>('integer', 'The generation that the node enforced when it decided.'),
    trace_id: Nullable<string>('string', 'The trace id of the traceparent header that the client sent.'),
    ip_refusal: RefTo('For a call of the API, the refusal.'),
  },
  { title: 'Request' },
)
export type Request = Static<typeof Request>

const uuidPattern = '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
const Filters = {
  edge_id: Type.Optional(Id('edghts', 'edgtcp')),
  outcome: Type.Optional(Outcome),
  source_ip: Type.Optional(
    Type.String({
      'x-maxBytes': 50,
      'x-cidr': true,
      description: 'Return only requests from this address or CIDR range. For admins.',
    }),
  ),
}

export const RequestQuery = Closed({
  ...PageParameters,
  before_id: Type.Optional(
    Type.String({
      pattern: uuidPattern,
      'x-must': 'must be the id of a request',
      description: 'Return only requests older than this id.',
    }),
  ),
  ...Filters,
  route_id: Type.Optional(Id('edghtsrt')),
  status_class: Type.Optional(
    Type.Unsafe<'1xx' | '2xx' | '3xx' | '4xx' | '5xx'>({
      type: 'string',
      enum: ['1xx', '2xx', '3xx', '4xx', '5xx'],
      description: 'Return only requests whose response had such a status.',
    }),
  ),
  since: QueryMoment('Return only requests that arrived at this time or later.'),
  until: QueryMoment('Return only requests that arrived before this time.'),
})

export const StreamQuery = Closed(Filters)
/** Events of the stream. */
export const StreamEvents = {
  request: Request,
  dropped: Closed({
    count: Type.Integer({ description: 'Number of requests that came too fast to be sent since the last event.' }),
  }),
  end: Closed({
    reason: Type.Unsafe<'shutdown' | 'unauthorized' | 'unavailable'>({
      type: 'string',
      enum: ['shutdown', 'unauthorized', 'unavailable'],
      description: 'unauthorized: the key, session or address may no longer read it. Otherwise, connect again.',
    }),
  }),
}

const List = ListOf('requests', Request)
export const RequestList = Closed(
  {
    ...List.properties,
    dropped: Type.Integer({
      description:
        'Number of requests of the account that were not kept, in the hours from since to until, because there were too many.',
    }),
  },
  { title: 'RequestList' },
)
