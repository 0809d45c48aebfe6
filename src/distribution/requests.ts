import { type Static, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { type IdPrefix, type Id as IdText, idPattern } from '../kernel/ids.ts'
import { formatAddress, parseAddress } from '../kernel/ip/address.ts'
import { parseRfc3339 } from '../kernel/time.ts'

/** A WebSocket has the protocol of its first request, and status 101. */
export const requestProtocols = ['tcp', 'http/1.0', 'http/1.1', 'h2', 'h3'] as const

export const requestOutcomes = ['allowed', 'refused', 'warned', 'limited', 'failed'] as const

/**
 * Reasons by outcome why a request failed. Allowed requests have none; warnings of restrictions name the restriction
 * instead.
 */
export const requestReasons = {
  allowed: [],
  warned: ['policy', 'user_agent_filter', 'methods', 'rate_limit'],
  refused: [
    'policy',
    'restriction',
    'user_agent_filter',
    'cors',
    'methods',
    'emergency',
    // During the TLS handshake, before any request, or in a request.
    'client_certificate_missing',
    'client_certificate_expired',
    'client_certificate_untrusted',
  ],
  limited: ['source', 'edge', 'account', 'websockets', 'rate_limit'],
  /** First the edge's own responses, then upstream failures, then client failures. */
  failed: [
    'bad_request',
    'bad_host',
    'bad_forwarded_for',
    'ambiguous_path',
    'method_not_allowed',
    'misdirected',
    'no_route',
    'no_websocket',
    'no_backend',
    'all_down',
    'draining',
    'not_ready',
    'internal',
    'connect_failed',
    'connect_timeout',
    'tls_failed',
    'no_response',
    'response_timeout',
    'response_invalid',
    'response_cut',
    'client_timeout',
    'client_closed',
  ],
} as const satisfies Record<(typeof requestOutcomes)[number], readonly string[]>

/** In characters, which are bytes because other than printable ASCII is percent-encoded. Longer values are cut off. */
export const requestLimits = { method: 32, host: 255, path: 1_024 } as const

const Closed = <P extends Parameters<typeof Type.Object>[0]>(properties: P) =>
  Type.Object(properties, { additionalProperties: false })
const OrNull = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()])
const Id = <P extends IdPrefix>(...prefixes: P[]) =>
  Type.Unsafe<IdText<P>>({ type: 'string', pattern: prefixes.map(idPattern).join('|') })
const Printable = (maxLength: number) => Type.String({ pattern: '^[\\x21-\\x7e]+$', maxLength })
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const Address = Type.Refine(Type.String({ maxLength: 45 }), (text) => {
  const address = parseAddress(text)
  return address !== undefined && formatAddress(address) === text
})
const Moment = Type.Refine(
  Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$' }),
  (text) => parseRfc3339(text) !== undefined,
)

/**
 * One HTTPS request or TCP connection as the node's proxy saw it at its end. It has no headers, body or query, where
 * clients put confidential data. Ids are those at the time of the decision.
 */
export const EdgeRequest = Closed({
  /** A UUIDv7, the request's X-Request-Id. */
  id: Type.String({ pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$' }),
  at: Moment,
  node: Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,62}$' }),
  /** Null if no edge was found, or nothing below the edge. */
  account: OrNull(Id('ac')),
  edge: OrNull(Id('edghts', 'edgtcp')),
  route: OrNull(Id('edghtsrt')),
  /** The client's address, as policies saw it. */
  source: Address,
  protocol: Type.Enum([...requestProtocols]),
  method: OrNull(Printable(requestLimits.method)),
  host: OrNull(Printable(requestLimits.host)),
  path: OrNull(Printable(requestLimits.path)),
  /** Null for TCP, and without a response. */
  status: OrNull(Type.Integer({ minimum: 100, maximum: 999 })),
  durationMs: Count,
  /** Bytes received from and sent to the client, heads included. */
  bytesIn: Count,
  bytesOut: Count,
  /** The dialed `address:port`, with IPv6 in brackets. */
  upstream: OrNull(Type.String({ pattern: '^(?:[0-9.]+|\\[[0-9a-f:.]+\\]):\\d{1,5}$', maxLength: 53 })),
  outcome: Type.Enum([...requestOutcomes]),
  /** One of `requestReasons`. */
  reason: OrNull(Type.Enum([...new Set(Object.values(requestReasons).flat())])),
  /**
   * The account's restriction that refused, warned or allowed. Null for the edge's or route's own policies, and without
   * any.
   */
  restriction: OrNull(Id('ipx')),
  policy: OrNull(Id('ipp')),
  /** Null if no rule matched and the request was therefore refused, or no policy was checked. */
  rule: OrNull(Id('ipr')),
  /** The node's generation at the time of the decision. */
  generation: Count,
  /** Trace id of a valid `traceparent` header from the client. */
  trace: OrNull(Type.String({ pattern: '^[0-9a-f]{32}$' })),
})
export type EdgeRequest = Static<typeof EdgeRequest>
export type RequestOutcome = EdgeRequest['outcome']
export type RequestReason = NonNullable<EdgeRequest['reason']>

const checker = Compile(EdgeRequest)

/** Nodes may be broken or stolen, so every field must be in bounds. */
export const isEdgeRequest = (sent: unknown): sent is EdgeRequest =>
  checker.Check(sent) && (sent.reason === null || isReasonOf(sent.outcome, sent.reason))

const isReasonOf = (outcome: RequestOutcome, reason: RequestReason): boolean =>
  requestReasons[outcome].some((each) => each === reason)

/**
 * True if the client's address was refused. Filters of routes refuse for other reasons, which say nothing about
 * restrictions.
 */
export const isAddressRefused = ({ outcome, reason }: Pick<EdgeRequest, 'outcome' | 'reason'>): boolean =>
  outcome === 'refused' && (reason === 'policy' || reason === 'restriction')
