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
 * What travels to edges. A record tells everything about one thing that an edge node must know, and names other things
 * by their keys instead of repeating them: a policy used by ten thousand edges is sent once. Nothing in here knows
 * HAProxy.
 *
 * Nodes refuse a record that does not match, unknown fields included. So send a new field only when it differs from its
 * default, and nodes that do not know it yet keep accepting the others.
 */
const Closed = <P extends TProperties>(properties: P): TObject<P> =>
  Type.Object(properties, { additionalProperties: false })
const Id = <P extends IdPrefix>(...prefixes: P[]) =>
  Type.Unsafe<IdText<P>>({ type: 'string', pattern: prefixes.map(idPattern).join('|') })
const OrNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])
/** Of ASCII, where characters are bytes. */
const Text = (pattern: string, maxBytes: number) =>
  Type.Refine(Type.String({ pattern }), ({ length }) => length <= maxBytes)
const Sha256 = Type.String({ pattern: '^[0-9a-f]{64}$' })

/** Only in the canonical spelling: the API stores every other one in this. */
const Hostports = (rules: { wildcard: boolean }) =>
  Type.Array(
    Type.Refine(Type.String(), (text) => isCanonicalHostport(text, rules)),
    { maxItems: maxHostports },
  )
const Policies = Type.Array(Id('ipp'), { minItems: 1, maxItems: maxAttachedPolicies })
/** Missing: what they do not allow is refused. */
const PoliciesMode = Type.Optional(Type.Literal('warn'))

const TcpRecord = Closed({
  account: Id('ac'),
  hostports: Hostports({ wildcard: false }),
  /** Null: none, or disabled. */
  backend: OrNull(Id(backendKinds.static, backendKinds.weighted, backendKinds.failover)),
  /** Null: no restriction, or disabled. */
  policies: OrNull(Policies),
  policies_mode: PoliciesMode,
  rate_limit: ConnectionLimit,
})

const HttpsRecord = Closed({ hostports: Hostports({ wildcard: true }) })

/**
 * An HTTPS edge that asks clients for a certificate, in place of its https record. It is a kind of its own because agents before
 * it keep an edge whose record they do not understand as it was: they would go on to let everyone in. From this record they learn
 * only that the edge is gone.
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
  /** Missing: responses stay as they are. */
  response_headers: Type.Optional(Headers('response')),
  ...RouteModules,
  /** Missing: they are refused. */
  encoded_slashes: Type.Optional(Type.Literal('allow')),
  /** Missing: the policies apply to them. */
  path_variants: Type.Optional(Type.Literal('ignore')),
  /** Missing: they are accepted. */
  websocket: Type.Optional(Type.Literal(false)),
  /** Missing: the defaults. */
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
    /** Only in an HTTP check. */
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
  /** Missing: TCP edges send no header. */
  send_proxy_protocol: Type.Optional(Type.Literal(true)),
  /** Missing: not checked. */
  health_check: Type.Optional(HealthCheck),
})

const isDistinct = (ids: readonly string[]): boolean => new Set(ids).size === ids.length

/** Static backends and the share of requests that each gets. Weight 0: no new ones. */
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

/** Static backends in the order in which they are used: the first that is up. */
const FailoverRecord = Type.Refine(
  Closed({
    account: Id('ac'),
    backends: Type.Refine(Type.Array(Id('bkdst'), { maxItems: maxMembers }), isDistinct),
    /** When none of them is up. Missing: 503. */
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

/** The compiled rules of an IP policy as one file: small ones come along, large ones in pieces, as blobs by their hash. */
const PolicyRecord = Type.Refine(
  Closed({
    /** Hash of the whole file. */
    hash: Sha256,
    bytes: Type.Integer({ minimum: 12, maximum: 64 * 1024 * 1024 }),
    /** The file itself in base64. */
    inline: Type.Optional(Text('^[A-Za-z0-9+/]*={0,2}$', 128 * 1024)),
    /** The hashes of its pieces, in order. */
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
/** A certificate that a domain uses. */
const CertificateRecord = Closed({
  account: Id('ac'),
  /** What it may be served for: names of the account. Those inside the certificate decide nothing. */
  names: Type.Array(Name, { minItems: 1, maxItems: maxCertificateNames }),
  /** Names under a wildcard that are others'. */
  except: Type.Optional(Type.Array(Name, { maxItems: maxCertificateNames })),
  chain: Text('^-----BEGIN CERTIFICATE-----\\n[A-Za-z0-9+/=\\n -]+-----END CERTIFICATE-----\\n$', 20_000),
  /** Encrypted with the delivery key of this id; see delivery.ts. */
  key: Text('^[A-Za-z0-9+/]+=*$', 12_000),
  key_id: KeyId,
})
/** The delivery key, encrypted to the public key of one node. */
const RecipientRecord = Closed({
  node: Type.String({ minLength: 1, maxLength: 255 }),
  public_key: Type.String({ pattern: publicKeyPattern }),
  key_id: KeyId,
  sealed: Text('^x25519:[A-Za-z0-9_-]{43}\\.[A-Za-z0-9+/]+=*$', 1_000),
})

export type CertificateRecord = Static<typeof CertificateRecord>
export type RecipientRecord = Static<typeof RecipientRecord>
/** What an encrypted private key is bound to. */
export const certificateContext = (id: string, account: string): string => `certificate ${account} ${id}`

/** What the node answers to the question of a certificate authority on port 80 (RFC 8555, 8.3), for this host and token only. */
const ChallengeRecord = Closed({
  host: Type.Refine(Type.String(), (host) => isHostName(host) && host === host.toLowerCase()),
  token: Text(challengeTokenPattern, maxChallengeBytes),
  /** The token, a dot and the thumbprint of the key that ordered. */
  answer: Text(challengeAnswerPattern, maxChallengeBytes),
})

/**
 * By how many nodes limits of the cell are divided, for an account that has any. In a record of its own, so that one row for each account
 * follows when a node comes or goes, and under no rollout.
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

/** Every kind of record: what its key names, and the value that stands under it. */
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

/** A record as of a generation. Null says that the thing is gone. */
export type EdgeRecord = {
  key: RecordKey
  generation: number
  value: RecordValue | null
  /**
   * The file of a policy that says which rule decides about which address (rule_file.ts). Beside the value and not in it:
   * older nodes do not look here, and enforce the policy all the same. Missing from an older control plane.
   */
  rules?: PolicyRecord
  /** Set if the policy has rules that expire. Beside the value, so that older nodes ignore it and wait for the control plane. */
  expiring?: ExpiringRules
}
/** When the first of its rules expires, in milliseconds, and all of its rules (rule_list.ts) to tell what holds from then on. */
export type ExpiringRules = Static<typeof ExpiringRules>
export const isPolicyRecord = (value: unknown): value is PolicyRecord => policyCheck.Check(value)
export const isExpiringRules = (value: unknown): value is ExpiringRules => expiringCheck.Check(value)

export const kindOf = (key: RecordKey): RecordKind => key.slice(0, key.indexOf('.')) as RecordKind
