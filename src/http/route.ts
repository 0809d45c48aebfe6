import type { IncomingMessage } from 'node:http'
import type { Static, TObject, TSchema } from 'typebox'
import type { Evaluate } from '../access/decisions.ts'
import type { DbPool } from '../db/pool.ts'
import type { Caller, Role } from '../identity/caller.ts'
import type { Origin } from '../identity/origin.ts'
import { canNeedApproval } from '../kernel/approval.ts'
import type { Clock } from '../kernel/clock.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import type { ErrorCode } from '../kernel/errors.ts'
import type { Id, IdPrefix } from '../kernel/ids.ts'
import type { Quotas } from '../kernel/quotas.ts'
import type { UnusualAbove } from '../kernel/unusual_change.ts'
import type { DomainService } from './domains.ts'
import type { EdgeView } from './edges.ts'
import type { Events } from './event_stream.ts'
import type { Intake } from './input/body.ts'
import type { HeavyKind } from './limits/heavy.ts'
import type { Repeated } from './read_only.ts'
import { BreakGlass, Closed, DryRun } from './wire.ts'

export type Method = 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'

/** What is the same for all accounts. */
export type InstallationSettings = {
  readonly tcpPorts: { readonly first: number; readonly last: number }
  /** How many of each thing an account may store, unless the operator has set its own. */
  readonly quotas: Quotas
  /** Which changes need to be confirmed. */
  readonly unusualAbove: UnusualAbove
  /** For each key, where an account has no limit of its own. 0: none. */
  readonly requestsPerMinute: number
  /** Whether the token of a key opens a dashboard session. */
  readonly tokenSignIn: boolean
  /** How long the key of `gatehouse login` is valid. */
  readonly loginSeconds: number
  /** The ids of all operations, which the scopes of keys are matched against. */
  readonly operations: readonly string[]
  /** Those that only admins may call. */
  readonly adminOperations: ReadonlySet<string>
  /** Public suffixes that belong to the operator. */
  readonly wildcardSuffixes: readonly string[]
  /** Why webhooks cannot be sent to a URL; completes the sentence 'url …'. */
  readonly webhookUrlFault: (url: string) => string | undefined
  /** Encrypts private keys. Missing when the operator has not set a key for it. */
  readonly secrets?: SecretsBox | undefined
}

export type Handling<Params, Query, Body> = {
  readonly db: DbPool
  readonly caller: Caller
  readonly origin: Origin
  readonly clock: Clock
  /** Says what the IP restrictions of an account make of an address. */
  readonly evaluate: Evaluate
  readonly settings: InstallationSettings
  readonly edges: EdgeView
  /** For the log: why the status of what is shown could not be read. */
  readonly noteStatusUnread: (reason: string) => void
  readonly domains: DomainService
  /** Makes another change in the name of the same caller, for change sets. */
  readonly makeChange: MakeChange
  /** The same for what the service does by itself, later or as a trial, because this caller asked for it. */
  readonly byService: (db: DbPool, operation: string) => ServiceRequest
  /** Whether the caller confirms an unusual change. Dry runs and change sets are judged when all of it is done. */
  readonly confirmation: 'missing' | 'given' | 'judged_as_a_whole'
  /** Why the caller makes changes without the approval that they need, if that is what the caller wants. */
  readonly breakGlass?: string
  /** A waiting proposal of the same changes is as good as another one. */
  readonly isRepeatable?: true
  /** Every operation, for what finds the one that undoes another. */
  readonly routes: ReadonlyMap<string, Route>
  /** The absolute address of a path, under the configured public URL. */
  readonly uri: (path: string) => string
  readonly params: Params
  readonly query: Query
  readonly body: Body
  /** Read-only fields that the body had beside it, to be compared with the current values. */
  readonly repeated: Repeated
  /** The tag of what the client last saw, if it wants to be refused when that has changed. */
  readonly ifMatch?: string
  readonly idempotencyKey?: string
}

/** What the service does by itself. It has all rights in the account, and no source address. */
export type ServiceRequest = Pick<
  Handling<unknown, unknown, unknown>,
  'db' | 'caller' | 'origin' | 'clock' | 'settings' | 'makeChange' | 'routes' | 'uri'
>

/** One change of a change set: an operation, and what would be sent to it. */
export type PlannedChange = {
  readonly operation: string
  /** Those of the path and of the query. */
  readonly parameters?: Readonly<Record<string, string | number | boolean>>
  readonly body?: object
  readonly if_match?: string
}
/** `isProposal`: whether the scopes of the caller's key include it is not asked. */
export type MakeChange = (db: DbPool, change: PlannedChange, isProposal: boolean) => Promise<Result<unknown>>

/** Whether a flag of the query is set, for code that does not know the route's query. */
export const isSet = (query: object, flag: string): boolean => Reflect.get(query, flag) === true

/** What a handler returns: the body of the response, and what its headers say. */
export type Result<Body> = {
  /** Undefined with 204. */
  readonly body: Body
  readonly etag?: string
  /** The generation of a change that concerns edge nodes. */
  readonly generation?: number
  /** The body is that of an earlier response to the same Idempotency-Key. */
  readonly replayed?: boolean
  readonly warnings?: readonly string[]
  readonly cookie?: string
  /** It was made without the approval that it needed. */
  readonly brokeGlass?: true
  /** It is a dry run, and the change would need approval. */
  readonly needsApproval?: boolean
  /** In place of a body: a stream of events. */
  readonly events?: Events
}

/** What a parameter of a path is: an id of a kind, a number, or the id of a request, whether to an edge or to the API. */
export type ParamKind = IdPrefix | 'number' | 'request'
export type Params = Readonly<Record<string, ParamKind>>
type ParamOf<K> = K extends IdPrefix ? Id<K> : string
/** The parameters of a path as a handler gets them. */
export type ParamsOf<P> = { readonly [K in keyof P]: ParamOf<P[K]> }

export type OtherBody<Body> = {
  readonly limitBytes: number
  readonly read: (request: IncomingMessage, intake: Intake) => Promise<Body>
  /** As a JSON body that does the same, for a change that is kept. */
  readonly toJson?: (request: { db: DbPool; caller: Caller; params: Record<string, Id> }, body: Body) => Promise<object>
}

export type RouteShape<P extends Params, Q extends TObject, B extends TSchema, R extends TSchema> = {
  /** `resource.verb`: the name in the log, the metrics, the audit and openapi.json. */
  readonly operation: string
  readonly summary: string
  readonly method: Method
  readonly path: `/${string}`
  /** The path parameters and what each identifies. */
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  /** What the schema cannot say of the body. It throws a refusal, before anything is looked up. */
  readonly check?: (body: Static<B>, settings: InstallationSettings, isVendorClient: boolean) => void
  /** The body may have the read-only fields of the response, with the values that they have. */
  readonly acceptsResponse?: true
  /** Texts that the vendor's clients send empty when they are left out, although empty would clear them here. */
  readonly vendorDefaults?: readonly string[]
  /** Limit of a JSON body; 64 KiB when not given, and never more than `maxJsonBytes`. */
  readonly bodyLimitBytes?: number
  /** Other content types that the body may have, and what reads each as it arrives. It is not checked against `body`. */
  readonly otherBodies?: Readonly<Record<string, OtherBody<Static<B>>>>
  /**
   * Refuses a caller who could not use it, before a body beyond `maxJsonBytes` is read. The handler decides it again:
   * this only spares us the body.
   */
  readonly beforeLargeBody?: (
    request: Pick<Handling<ParamsOf<P>, never, never>, 'db' | 'caller' | 'params'>,
  ) => Promise<void>
  /** It can take seconds: an account has few of them at once, and they leave connections to others. */
  readonly heavy?: HeavyKind
  /** Absent with 204. */
  readonly response?: R
  /** Other content types of the response and the function that renders each, used when `Accept` prefers them. */
  readonly otherResponses?: Readonly<Record<string, (response: Static<R>) => Iterable<string>>>
  /** The JSON of a response that is too long to be written in one go, in pieces. */
  readonly slices?: (response: Static<R>) => Iterable<string>
  /** In place of a response: the data of each event of a stream that stays open, by the event's name. */
  readonly events?: Readonly<Record<string, TSchema>>
  readonly success: 200 | 201 | 204
  /** A successful response has an ETag. */
  readonly tagged?: true
  /** `admin`: refused to all others before anything is looked up. */
  readonly access: 'anyone' | 'admin'
  /** What of it the handler refuses to others with ERR_FORBIDDEN. Completes the sentence 'Only admins can …'. */
  readonly adminsOnly?: string
  /** Not a GET, but open to viewers all the same: it only asks, or concerns the caller's own session. */
  readonly openToViewers?: true
  /** Not a GET, but it changes nothing. */
  readonly onlyAsks?: true
  /** The field of the response that is a secret made by this very call. */
  readonly secret?: string
  /** It cannot be one of several changes: it waits for other machines, or is about change sets. */
  readonly alone?: true
  /** Its body holds the token, so it needs no other; a cookie that comes with it is not looked at. */
  readonly signsIn?: true
  /** Its success sets or clears the session cookie. */
  readonly setsCookie?: true
  /** It creates, changes or ends keys, directly or with their owner: refused to a token that a rotation has replaced. */
  readonly managesKeys?: true
  /** Refusals beyond those that any route of this form can give. */
  readonly errors?: readonly ErrorCode[]
  readonly handle: (request: Handling<ParamsOf<P>, Static<Q>, Static<B>>) => Promise<Result<Static<R>>>
}

// biome-ignore lint/suspicious/noExplicitAny: a list of routes holds handlers of many request types; route() checked each.
export type Route = RouteShape<any, any, any, any>

/** The role that it takes at least. A change is not for viewers unless its route says so. */
export function leastRole({ access, method, openToViewers }: Route): Role {
  if (access === 'admin') return 'admin'
  return method === 'GET' || openToViewers ? 'viewer' : 'member'
}

/** Every change can be tried: dry_run.ts says what that means. */
const isChange = ({ method, onlyAsks }: Pick<Route, 'method' | 'onlyAsks'>): boolean => method !== 'GET' && !onlyAsks

/**
 * Whether it can be one of several changes that are kept, shown to others, and made later: not where the request or the
 * response has a secret, or is about a session.
 */
export const canBePlanned = (route: Route): boolean =>
  isChange(route) &&
  !(route.alone || route.secret || route.signsIn || route.setsCookie || route.openToViewers) &&
  !Object.values(route.body?.properties ?? {}).some((field) => Reflect.get(field as object, 'writeOnly') === true)

/** One operation of the API. The server, openapi.json, the command line and the coverage tests all read these. */
export const route = <
  const P extends Params = Record<never, ParamKind>,
  Q extends TObject = TObject,
  B extends TSchema = TSchema,
  R extends TSchema = TSchema,
>(
  definition: RouteShape<P, Q, B, R>,
): Route => {
  const made = definition as Route
  if (!isChange(made)) return made
  const own = made.query?.properties
  return {
    ...made,
    query: Closed({ ...own, ...(mayNeedApproval(made) && { break_glass: BreakGlass }), dry_run: DryRun }),
  }
}

/** Whether a direct change can become a change set that waits for approval. */
export const mayNeedApproval = (route: Route): boolean => canNeedApproval(route.operation) && canBePlanned(route)
