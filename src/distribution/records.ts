import { type Static, type TObject, type TProperties, type TSchema, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { maxCertificateNames } from '../kernel/crypto/certificate.ts'
import { type BackendPrefix, backendKinds, maxMembers, maxWeight } from '../kernel/edge/backends.ts'
import { maxCountedNodes } from '../kernel/edge/cells.ts'
import { challengeAnswerPattern, challengeTokenPattern, maxChallengeBytes } from '../kernel/edge/domains.ts'
import { responseFault, responseLimits } from '../kernel/edge/fixed_response.ts'
import { headerLimits, headersFault, type Message } from '../kernel/edge/headers.ts'
import {
  checkPathPattern,
  type HealthCheckNumber,
  healthCheckLimits,
  healthCheckTypes,
  maxCheckPathBytes,
} from '../kernel/edge/health_check.ts'
import { isCanonicalHostport, isHostName, maxHostports } from '../kernel/edge/hostport.ts'
import { authorityLimits, mutualTlsModes } from '../kernel/edge/mutual_tls.ts'
import { matchTypes, maxMatchBytes, storedMatchPattern } from '../kernel/edge/paths.ts'
import { type TimeoutName, timeoutLimits } from '../kernel/edge/timeouts.ts'
import { type IdPrefix, type Id as IdText, idPattern } from '../kernel/ids.ts'
import { maxAttachedPolicies } from '../kernel/ip/decide.ts'
import { maxRestrictions } from '../kernel/quotas.ts'
import { publicKeyPattern } from './delivery.ts'
import { ConnectionLimit, RouteModules } from './route_modules.ts'

/**
 * The data for edge nodes. A record has everything that a node must know about one resource, and references other
 * records by key instead of repeating them: a policy used by ten thousand edges is sent once. Nothing here depends on
 * HAProxy.
 *
 * Nodes refuse a record that does not match, unknown fields included. Send a new field only when it differs from its
 * default, so that older nodes still accept the other records.
 */
const Closed = <P extends TProperties>(properties: P): TObject<P> =>
  Type.Object(properties, { additionalProperties: false })
const Id = <P extends IdPrefix>(...prefixes: P[]) =>
  Type.Unsafe<IdText<P>>({ type: 'string', pattern: prefixes.map(idPattern).join('|') })
const OrNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])
/** ASCII only, so that characters are bytes. */
const Text = (pattern: string, maxBytes: number) =>
  Type.Refine(Type.String({ pattern }), ({ length }) => length <= maxBytes)
const Sha256 = Type.String({ pattern: '^[0-9a-f]{64}$' })

/** Canonical spelling only, which is the one that the API stores. */
const Hostports = (rules: { wildcard: boolean }) =>
  Type.Array(
    Type.Refine(Type.String(), (text) => isCanonicalHostport(text, rules)),
    { maxItems: maxHostports },
  )
const Policies = Type.Array(Id('ipp'), { minItems: 1, maxItems: maxAttachedPolicies })
/** Missing: policies are enforced. */
const PoliciesMode = Type.Optional(Type.Literal('warn'))

const TcpRecord = Closed({
  account: Id('ac'),
  hostports: Hostports({ wildcard: false }),
  /** Null if unset or disabled. */
  backend: OrNull(Id(backendKinds.static, backendKinds.weighted, backendKinds.failover)),
  /** Null if unset or disabled. */
  policies: OrNull(Policies),
  policies_mode: PoliciesMode,
  rate_limit: ConnectionLimit,
})

const HttpsRecord = Closed({ hostports: Hostports({ wildcard: true }) })

/**
 * An HTTPS edge that asks clients for a certificate, in place of its https record. It has its own kind, because an older
 * agent keeps an edge as it was when it does not understand the record, and would continue to let everyone in. From this
 * record, it learns only that the edge is gone.
 */
const MutualTlsRecord = Closed({
  account: Id('ac'),
  hostports: Hostports({ wildcard: true }),
  mode: Type.Enum([...mutualTlsModes]),
  authorities: Type.Refine(
    Type.Array(
      Text('^-----BEGIN CERTIFICATE-----\\n[A-Za-z0-9+/=\\n]+-----END CERTIFICATE-----\\n$', authorityLimits.pemBytes),
      {
        minItems: 1,
        maxItems: authorityLimits.authorities,
      },
    ),
    (pems) => pems.join('').length <= authorityLimits.allBytes,
  ),
})

const Headers = (message: Message) =>
  Type.Refine(
    Closed({
      add: Type.Array(Type.Tuple([Type.String(), Type.String()]), { maxItems: headerLimits.entries }),
      remove: Type.Array(Type.String(), { maxItems: headerLimits.entries }),
    }),
    ({ add, remove }) => {
      const operations = { add: Object.fromEntries(add), remove }
      return Object.keys(operations.add).length === add.length && !headersFault(operations, message)
    },
  )

const Seconds = (name: TimeoutName) => Type.Optional(Type.Integer({ minimum: 1, maximum: timeoutLimits[name].longest }))

const RouteRecord = Closed({
  account: Id('ac'),
  edge: Id('edghts'),
  match_type: Type.Enum([...matchTypes]),
  match: Text(storedMatchPattern, maxMatchBytes),
  backend: OrNull(Id<BackendPrefix>(...Object.values(backendKinds))),
  policies: OrNull(Policies),
  policies_mode: PoliciesMode,
  headers: OrNull(Headers('request')),
  /** Missing: responses are unchanged. */
  response_headers: Type.Optional(Headers('response')),
  ...RouteModules,
  /** Missing: encoded slashes are refused. */
  encoded_slashes: Type.Optional(Type.Literal('allow')),
  /** Missing: the policies apply to other spellings of the path. */
  path_variants: Type.Optional(Type.Literal('ignore')),
  /** Missing: WebSockets are accepted. */
  websocket: Type.Optional(Type.Literal(false)),
  /** Missing: default timeouts. */
  timeouts: Type.Optional(
    Closed({
      connect_seconds: Seconds('connect_seconds'),
      response_seconds: Seconds('response_seconds'),
      idle_seconds: Seconds('idle_seconds'),
    }),
  ),
})

const CheckNumber = (name: HealthCheckNumber) => Type.Integer({ minimum: 1, maximum: healthCheckLimits[name].most })
const HealthCheck = Type.Refine(
  Closed({
    type: Type.Enum([...healthCheckTypes]),
    /** Only for HTTP checks. */
    path: Type.Optional(Text(checkPathPattern, maxCheckPathBytes)),
    interval_seconds: CheckNumber('interval_seconds'),
    healthy_after: CheckNumber('healthy_after'),
    unhealthy_after: CheckNumber('unhealthy_after'),
  }),
  ({ type, path }) => (type === 'http') === (path !== undefined),
)

const BackendRecord = Closed({
  host: Type.Refine(Type.String(), (host) => isCanonicalHostport(`${host}:1`)),
  port: Type.Integer({ minimum: 1, maximum: 65_535 }),
  tls: Type.Boolean(),
  /** Missing: HTTP/1. */
  protocol: Type.Optional(Type.Literal('http2')),
  /** Missing: TCP edges send no PROXY protocol header. */
  send_proxy_protocol: Type.Optional(Type.Literal(true)),
  /** Missing: no health check. */
  health_check: Type.Optional(HealthCheck),
})

const isDistinct = (ids: readonly string[]): boolean => new Set(ids).size === ids.length

/** Static backends and their shares of requests. Weight 0: no new requests. */
const WeightedRecord = Closed({
  account: Id('ac'),
  backends: Type.Refine(
    Type.Array(Type.Tuple([Id('bkdst'), Type.Integer({ minimum: 0, maximum: maxWeight })]), {
      minItems: 1,
      maxItems: maxMembers,
    }),
    (members) => isDistinct(members.map(([id]) => id)),
  ),
})

/** Static backends in order of preference: the first that is up is used. */
const FailoverRecord = Type.Refine(
  Closed({
    account: Id('ac'),
    backends: Type.Refine(Type.Array(Id('bkdst'), { maxItems: maxMembers }), isDistinct),
    /** Sent when no backend is up. Missing: 503. */
    response: Type.Optional(Id('bkdhr')),
  }),
  ({ backends, response }) => {
    const members = backends.length + (response === undefined ? 0 : 1)
    return members >= 1 && members <= maxMembers
  },
  () => 'has no backends, or too many',
)

const ResponseRecord = Type.Refine(
  Closed({
    status: Type.Integer({ minimum: responseLimits.leastStatus, maximum: responseLimits.mostStatus }),
    headers: Type.Array(Type.Tuple([Type.String(), Type.String()])),
    body: Type.String(),
  }),
  (response) => !responseFault(response),
  (response) => `has an invalid ${responseFault(response)?.place.split('.')[0]}`,
)

/**
 * The compiled rules of an IP policy as one file: a small one is inline, a large one is in pieces, as blobs named by
 * their hash.
 */
const PolicyRecord = Type.Refine(
  Closed({
    hash: Sha256,
    bytes: Type.Integer({ minimum: 12, maximum: 64 * 1024 * 1024 }),
    /** The file in base64. */
    inline: Type.Optional(Text('^[A-Za-z0-9+/]*={0,2}$', 128 * 1024)),
    /** Hashes of the pieces, in order. */
    chunks: Type.Optional(Type.Array(Sha256, { minItems: 1, maxItems: 10_000 })),
  }),
  ({ inline, chunks }) => (inline === undefined) !== (chunks === undefined),
  () => 'has not exactly one of inline and chunks',
)

const RestrictionsRecord = Closed({
  sets: Type.Array(Closed({ id: Id('ipx'), enforced: Type.Boolean(), policies: Policies }), {
    maxItems: maxRestrictions,
  }),
})

const Name = Type.Refine(Type.String(), (name) => isCanonicalHostport(`${name}:443`, { wildcard: true }))
const KeyId = Type.String({ pattern: '^[0-9a-f]{16}$' })
const CertificateRecord = Closed({
  account: Id('ac'),
  /** Names of the account for which it may be served. Names inside the certificate decide nothing. */
  names: Type.Array(Name, { minItems: 1, maxItems: maxCertificateNames }),
  /** Names under a wildcard that belong to other accounts. */
  except: Type.Optional(Type.Array(Name, { maxItems: maxCertificateNames })),
  chain: Text('^-----BEGIN CERTIFICATE-----\\n[A-Za-z0-9+/=\\n -]+-----END CERTIFICATE-----\\n$', 20_000),
  /** Encrypted with the delivery key of this id; see delivery.ts. */
  key: Text('^[A-Za-z0-9+/]+=*$', 12_000),
  key_id: KeyId,
})
/** The delivery key, encrypted to one node's public key. */
const RecipientRecord = Closed({
  node: Type.String({ minLength: 1, maxLength: 255 }),
  public_key: Type.String({ pattern: publicKeyPattern }),
  key_id: KeyId,
  sealed: Text('^x25519:[A-Za-z0-9_-]{43}\\.[A-Za-z0-9+/]+=*$', 1_000),
})

export type CertificateRecord = Static<typeof CertificateRecord>
export type RecipientRecord = Static<typeof RecipientRecord>
/** Binds an encrypted private key to its certificate. */
export const certificateContext = (id: string, account: string): string => `certificate ${account} ${id}`

/** The node's response to an ACME challenge on port 80 (RFC 8555, 8.3), for this host and token only. */
const ChallengeRecord = Closed({
  host: Type.Refine(Type.String(), (host) => isHostName(host) && host === host.toLowerCase()),
  token: Text(challengeTokenPattern, maxChallengeBytes),
  /** The token, a dot and the thumbprint of the account key. */
  answer: Text(challengeAnswerPattern, maxChallengeBytes),
})

/**
 * The number of nodes by which limits of the cell are divided, for an account with such limits. A separate record, so
 * that a joining or leaving node changes one row per account, outside of any rollout.
 */
const CellNodesRecord = Closed({ nodes: Type.Integer({ minimum: 1, maximum: maxCountedNodes }) })

export type CellNodesRecord = Static<typeof CellNodesRecord>
export type ChallengeRecord = Static<typeof ChallengeRecord>
export type TcpRecord = Static<typeof TcpRecord>
export type HttpsRecord = Static<typeof HttpsRecord>
export type MutualTlsRecord = Static<typeof MutualTlsRecord>
export type RouteRecord = Static<typeof RouteRecord>
export type BackendRecord = Static<typeof BackendRecord>
export type WeightedRecord = Static<typeof WeightedRecord>
export type FailoverRecord = Static<typeof FailoverRecord>
export type ResponseRecord = Static<typeof ResponseRecord>
export type PolicyRecord = Static<typeof PolicyRecord>
export type RestrictionsRecord = Static<typeof RestrictionsRecord>

const ExpiringRules = Closed({ at: Type.Integer({ minimum: 0 }), list: PolicyRecord })

const policyCheck = Compile(PolicyRecord)
const expiringCheck = Compile(ExpiringRules)

/** Every kind of record: the prefix of the id in its key, and its value. */
export const recordKinds = {
  tcp: { prefix: 'edgtcp', value: TcpRecord },
  https: { prefix: 'edghts', value: HttpsRecord },
  mutual_tls: { prefix: 'edghts', value: MutualTlsRecord },
  route: { prefix: 'edghtsrt', value: RouteRecord },
  backend: { prefix: 'bkdst', value: BackendRecord },
  weighted: { prefix: 'bkdwd', value: WeightedRecord },
  failover: { prefix: 'bkdfo', value: FailoverRecord },
  response: { prefix: 'bkdhr', value: ResponseRecord },
  policy: { prefix: 'ipp', value: PolicyRecord },
  restrictions: { prefix: 'ac', value: RestrictionsRecord },
  cell_nodes: { prefix: 'ac', value: CellNodesRecord },
  certificate: { prefix: 'cert', value: CertificateRecord },
  recipient: { prefix: 'enk', value: RecipientRecord },
  challenge: { prefix: 'chl', value: ChallengeRecord },
} as const satisfies Record<string, { prefix: IdPrefix; value: TSchema }>

export type RecordKind = keyof typeof recordKinds
export type RecordKey = `${RecordKind}.${string}`
export type RecordValue = Static<(typeof recordKinds)[RecordKind]['value']>

/** A record at a generation. Null means that the resource was deleted. */
export type EdgeRecord = {
  key: RecordKey
  generation: number
  value: RecordValue | null
  /**
   * The rule file of a policy, which has the deciding rule of each address (rule_file.ts). Outside of the value, because
   * older nodes ignore it here and still enforce the policy. Missing from an older control plane.
   */
  rules?: PolicyRecord
  /** Set if the policy has rules that expire. Beside the value, so that older nodes ignore it and wait for the control plane. */
  expiring?: ExpiringRules
}
/**
 * When the first rule expires, in milliseconds, and all rules (rule_list.ts), from which the node computes what applies
 * afterwards.
 */
export type ExpiringRules = Static<typeof ExpiringRules>
export const isPolicyRecord = (value: unknown): value is PolicyRecord => policyCheck.Check(value)
export const isExpiringRules = (value: unknown): value is ExpiringRules => expiringCheck.Check(value)

export const kindOf = (key: RecordKey): RecordKind => key.slice(0, key.indexOf('.')) as RecordKind
