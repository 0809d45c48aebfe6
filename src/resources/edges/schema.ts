import { type TObject, type TProperties, Type } from 'typebox'
import type { ForwardingModules } from '../../health/edges.ts'
import { StatusShown } from '../../health/schema.ts'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Filter,
  Id,
  PageParameters,
  PathId,
  type Static,
  Timestamp,
  Uri,
} from '../../http/wire.ts'
import { backendPrefixes } from '../../kernel/edge/backends.ts'
import { type HostportRules, maxHostports } from '../../kernel/edge/hostport.ts'
import { matchPattern, matchTypes, maxMatchBytes } from '../../kernel/edge/paths.ts'
import {
  type RouteTimeouts,
  type TimeoutName,
  timeoutLimits,
  websocketIdleSeconds,
} from '../../kernel/edge/timeouts.ts'
import type { EdgeKind } from './module.ts'
import { modulesOn } from './modules.ts'

const Hostports = (rules: HostportRules, example: string, description: string) =>
  Type.Array(Type.Unsafe<string>({ type: 'string', 'x-maxBytes': 300, 'x-hostport': rules, examples: [example] }), {
    maxItems: maxHostports,
    description,
    'x-default': [],
  })
const TcpHostports = Hostports(
  {},
  'tcp.example.com:20001',
  "host:port, with a port in the installation's TCP range. A hostport belongs to one edge, and its port to one account of the installation.",
)
const HttpsHostports = Hostports(
  { wildcard: true, nameOnly: true, port: 443 },
  'app.example.com:443',
  'host:443. The first label can be *, but not directly under a public suffix such as co.uk. A hostport belongs to one edge and cannot overlap a name of another account. The operator can require that it is under a verified domain of this account.',
)

const maxCells = 100
const Cells = Type.Unsafe<string[] | null>({
  type: ['array', 'null'],
  items: { type: 'string', 'x-maxBytes': 32, examples: ['default'] },
  minItems: 1,
  maxItems: maxCells,
  description:
    'Names of the cells that serve the edge, out of those of the account, which GET /cells lists. Null: all of them.',
})

/** A module inside its edge. Null removes it. */
const inline = (kind: EdgeKind): TProperties =>
  Object.fromEntries(
    modulesOn(kind).map(([name, { body }]) => [
      name,
      Type.Optional(Type.Unsafe<object | null>({ ...body, type: ['object', 'null'] })),
    ]),
  )
/** All modules; those that decide where traffic goes have precise types. */
type ShownModules = TProperties & {
  [Name in keyof ForwardingModules]: ReturnType<typeof Type.Unsafe<ForwardingModules[Name]>>
}
const shown = (kind: EdgeKind): ShownModules =>
  Object.fromEntries(
    modulesOn(kind).map(([name, { shape }]) => [
      name,
      Type.Unsafe<object | null>({ anyOf: [shape, { type: 'null' }] }),
    ]),
  ) as TProperties as ShownModules

const withModules = <P extends TProperties>(kind: EdgeKind, properties: P) =>
  Closed({ ...properties, ...inline(kind) }) as TObject as TObject<P>

export const TcpEdgeCreate = withModules('tcp', {
  ...Annotations,
  hostports: Type.Optional(TcpHostports),
  cells: Type.Optional(Cells),
})
export const TcpEdgeUpdate = withModules('tcp', {
  id: PathId('edgtcp'),
  ...Annotations,
  hostports: Type.Optional(TcpHostports),
  cells: Type.Optional(Cells),
})
const RefusedHostport = Closed(
  {
    hostport: Type.String(),
    reason: Type.Unsafe<'overlap' | 'public_suffix' | 'domain_owned'>({
      type: 'string',
      enum: ['overlap', 'public_suffix', 'domain_owned'],
      description:
        'overlap: another account already had an overlapping hostport. public_suffix: a wildcard directly under a public suffix. domain_owned: another account has verified the domain, and this one has not.',
    }),
    refused_at: Timestamp,
  },
  { title: 'RefusedHostport' },
)
const edgeFields = <P extends 'edgtcp' | 'edghts'>(prefix: P) => ({
  id: Id(prefix),
  uri: Uri,
  created_at: Timestamp,
  ...AnnotationsShown,
  hostports: Type.Array(Type.String()),
  refused_hostports: Type.Optional(
    Type.Array(RefusedHostport, {
      'x-volatile': true,
      description:
        'Hostports that are not in force because they conflict with rules introduced after they were created. Omitted when empty. Sending hostports replaces these too.',
    }),
  ),
  cells: Cells,
})
export const TcpEdge = Closed({ ...edgeFields('edgtcp'), ...shown('tcp'), status: StatusShown }, { title: 'TcpEdge' })
const references = {
  backend_id: Filter(Id(...backendPrefixes), 'Return only what sends traffic to this backend itself.'),
  ip_policy_id: Filter(Id('ipp'), 'Return only what has this IP policy in its ip_restriction module.'),
}
export const TcpEdgeQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('edgtcp'),
  hostport: Filter(TcpHostports.items, 'Return only the edge with this hostport.'),
  ...references,
})

const MatchType = Type.Unsafe<(typeof matchTypes)[number]>({ type: 'string', enum: [...matchTypes] })
const Match = Type.Unsafe<string>({
  type: 'string',
  pattern: matchPattern,
  'x-maxBytes': maxMatchBytes,
  'x-must':
    "must be a path that begins with '/', percent-encoded where needed, without a query, an encoded slash or an encoded backslash",
  examples: ['/api'],
})
const EncodedSlashes = Type.Unsafe<'reject' | 'allow'>({
  type: 'string',
  enum: ['reject', 'allow'],
  'x-default': 'reject',
  description:
    "Whether a request path may contain an encoded slash (%2F), an encoded backslash (%5C) or a backslash. `reject` answers 400. `allow` forwards the path unchanged, provided that it matches this route whether or not they are read as separators, and that it has no dot segments or ';'.",
})
const PathVariants = Type.Unsafe<'restrict' | 'ignore'>({
  type: 'string',
  enum: ['restrict', 'ignore'],
  'x-default': 'restrict',
  description:
    "Which paths the route's IP restriction decides about. `restrict` includes paths that match another route, or this one only for some servers: in another case, with a slash at the end, encoded twice, with path parameters. `ignore` leaves these to the other route: choose it if the upstream tells such paths apart and serves something else there.",
})
const Websocket = Type.Boolean({
  'x-default': true,
  description: 'Whether clients may open WebSockets, over HTTP/1.1 or HTTP/2. If false, the edge answers 400.',
})
const Seconds = (name: TimeoutName, description: string) =>
  Type.Unsafe<number | null>({
    type: ['integer', 'null'],
    minimum: 1,
    maximum: timeoutLimits[name].longest,
    description,
  })
const timeoutFields = {
  connect_seconds: Seconds('connect_seconds', 'Until the connection is open; then 503. Null: 5 seconds.'),
  response_seconds: Seconds('response_seconds', "Until the response's headers are there; then 504. Null: 60 seconds."),
  idle_seconds: Seconds(
    'idle_seconds',
    `How long the connection may be silent once the response has begun; then it is cut. Null: 60 seconds, and ${websocketIdleSeconds} for WebSockets.`,
  ),
}
const timeoutsNote = 'How long the edge waits for the upstream. Null: the defaults. PATCH replaces all three.'
const Timeouts = Type.Unsafe<Partial<RouteTimeouts> | null>({
  ...Closed({
    connect_seconds: Type.Optional(timeoutFields.connect_seconds),
    response_seconds: Type.Optional(timeoutFields.response_seconds),
    idle_seconds: Type.Optional(timeoutFields.idle_seconds),
  }),
  type: ['object', 'null'],
  description: timeoutsNote,
})
const TimeoutsShown = Type.Unsafe<RouteTimeouts | null>({
  anyOf: [Closed(timeoutFields, { title: 'RouteTimeouts' }), { type: 'null' }],
  description: timeoutsNote,
})
export const HttpsRouteCreate = withModules('route', {
  edge_id: PathId('edghts'),
  match_type: MatchType,
  match: Match,
  encoded_slashes: Type.Optional(EncodedSlashes),
  path_variants: Type.Optional(PathVariants),
  websocket: Type.Optional(Websocket),
  timeouts: Type.Optional(Timeouts),
  ...Annotations,
})
export const HttpsRouteUpdate = withModules('route', {
  edge_id: PathId('edghts'),
  id: PathId('edghtsrt'),
  match_type: Type.Optional(MatchType),
  match: Type.Optional(Match),
  encoded_slashes: Type.Optional(EncodedSlashes),
  path_variants: Type.Optional(PathVariants),
  websocket: Type.Optional(Websocket),
  timeouts: Type.Optional(Timeouts),
  ...Annotations,
})
export const HttpsRoute = Closed(
  {
    edge_id: Id('edghts'),
    id: Id('edghtsrt'),
    uri: Uri,
    created_at: Timestamp,
    ...AnnotationsShown,
    match_type: MatchType,
    match: Type.String(),
    encoded_slashes: EncodedSlashes,
    path_variants: PathVariants,
    websocket: Websocket,
    timeouts: TimeoutsShown,
    ...shown('route'),
    status: StatusShown,
  },
  { title: 'HttpsEdgeRoute' },
)
export type HttpsRoute = Static<typeof HttpsRoute>

export const HttpsEdgeCreate = withModules('https', {
  ...Annotations,
  hostports: Type.Optional(HttpsHostports),
  cells: Type.Optional(Cells),
})
export const HttpsEdgeUpdate = withModules('https', {
  id: PathId('edghts'),
  ...Annotations,
  hostports: Type.Optional(HttpsHostports),
  cells: Type.Optional(Cells),
})
export const HttpsEdge = Closed(
  {
    ...edgeFields('edghts'),
    ...shown('https'),
    routes: Type.Array(HttpsRoute, { description: 'Newest first.', 'x-volatile': true }),
    status: StatusShown,
  },
  { title: 'HttpsEdge' },
)
export type HttpsEdge = Static<typeof HttpsEdge>
export const HttpsEdgeQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('edghts'),
  hostport: Filter(HttpsHostports.items, 'Return only the edge with exactly this hostport.'),
  backend_id: Filter(
    references.backend_id,
    'Return only edges with a route that sends traffic to this backend itself.',
  ),
  ip_policy_id: Filter(references.ip_policy_id, 'Return only edges with a route that has this IP policy.'),
})
export const HttpsRouteQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('edghtsrt'),
  match: Filter(Match, 'Return only routes with exactly this match.'),
  ...references,
})
