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

/** Settings that apply to all accounts. */
export type InstallationSettings = {
  readonly tcpPorts: { readonly first: number; readonly last: number }
  /** Default limits of stored resources per account; the operator can override them per account. */
  readonly quotas: Quotas
  /** Thresholds above which a change needs confirmation. */
  readonly unusualAbove: UnusualAbove
  /** Limit per key for accounts without a limit of their own. 0: none. */
  readonly requestsPerMinute: number
  /** Whether a key's token can open a dashboard session. */
  readonly tokenSignIn: boolean
  /** Lifetime of the key that `gatehouse login` creates. */
  readonly loginSeconds: number
  /** Ids of all operations, to match scopes against. */
  readonly operations: readonly string[]
  /** Operations reserved for admins. */
  readonly adminOperations: ReadonlySet<string>
  /** Public suffixes that belong to the operator. */
  readonly wildcardSuffixes: readonly string[]
  /** Why webhooks cannot be sent to a URL; completes the sentence 'url …'. */
  readonly webhookUrlFault: (url: string) => string | undefined
  /** Encrypts private keys. Missing if the operator has not configured an encryption key. */
  readonly secrets?: SecretsBox | undefined
}

export type Handling<Params, Query, Body> = {
  readonly db: DbPool
  readonly caller: Caller
  readonly origin: Origin
  readonly clock: Clock
  /** Decides about an address by the IP restrictions of an account. */
  readonly evaluate: Evaluate
  readonly settings: InstallationSettings
  readonly edges: EdgeView
  /** Logs why a status in the response is unknown. */
  readonly noteStatusUnread: (reason: string) => void
  readonly domains: DomainService
  /** Makes another change as the same caller, for change sets. */
  readonly makeChange: MakeChange
  /** Makes changes as the service, later or as a trial, on behalf of this caller. */
  readonly byService: (db: DbPool, operation: string) => ServiceRequest
  /**
   * Whether the caller confirms an unusual change. Dry runs and change sets check the threshold once for all changes
   * together.
   */
  readonly confirmation: 'missing' | 'given' | 'judged_as_a_whole'
  /** The caller's reason for skipping approval, if requested. */
  readonly breakGlass?: string
  /** A pending proposal of the same changes can be reused. */
  readonly isRepeatable?: true
  /** All operations, for finding the one that undoes another. */
  readonly routes: ReadonlyMap<string, Route>
  /** Absolute URL of a path under the configured public URL. */
  readonly uri: (path: string) => string
  readonly params: Params
  readonly query: Query
  readonly body: Body
  /** Read-only fields repeated in the body, to be compared with the current values. */
  readonly repeated: Repeated
  /** `If-Match`: the change is refused if the resource no longer has this tag. */
  readonly ifMatch?: string
  readonly idempotencyKey?: string
}

/** Request of the service itself. It has all rights in the account and no source address. */
export type ServiceRequest = Pick<
  Handling<unknown, unknown, unknown>,
  'db' | 'caller' | 'origin' | 'clock' | 'settings' | 'makeChange' | 'routes' | 'uri'
>

/** One change of a change set: an operation and its input. */
export type PlannedChange = {
  readonly operation: string
  /** Path and query parameters. */
  readonly parameters?: Readonly<Record<string, string | number | boolean>>
  readonly body?: object
  readonly if_match?: string
}
/** `isProposal`: skips the check of the key's scopes. */
export type MakeChange = (db: DbPool, change: PlannedChange, isProposal: boolean) => Promise<Result<unknown>>

/** Reads a query flag without knowing the query type of the route. */
export const isSet = (query: object, flag: string): boolean => Reflect.get(query, flag) === true

/** Result of a handler: the body and the values of response headers. */
export type Result<Body> = {
  /** Undefined for 204. */
  readonly body: Body
  readonly etag?: string
  /** Generation of a change that concerns edge nodes. */
  readonly generation?: number
  /** The body repeats an earlier response to the same Idempotency-Key. */
  readonly replayed?: boolean
  readonly warnings?: readonly string[]
  readonly cookie?: string
  /** The change skipped the approval that it needed. */
  readonly brokeGlass?: true
  /** The dry run found that the change would need approval. */
  readonly needsApproval?: boolean
  /** A stream of events instead of a body. */
  readonly events?: Events
}

/** Type of a path parameter: the prefix of an id, a number, or the id of a request to an edge or to the API. */
export type ParamKind = IdPrefix | 'number' | 'request'
export type Params = Readonly<Record<string, ParamKind>>
type ParamOf<K> = K extends IdPrefix ? Id<K> : string
/** Path parameters, typed for handlers. */
export type ParamsOf<P> = { readonly [K in keyof P]: ParamOf<P[K]> }

export type OtherBody<Body> = {
  readonly limitBytes: number
  readonly read: (request: IncomingMessage, intake: Intake) => Promise<Body>
  /** Converts the body to equivalent JSON, for a change that is stored. */
  readonly toJson?: (request: { db: DbPool; caller: Caller; params: Record<string, Id> }, body: Body) => Promise<object>
}

export type RouteShape<P extends Params, Q extends TObject, B extends TSchema, R extends TSchema> = {
  /** `resource.verb`: the name in the log, the metrics, the audit log and openapi.json. */
  readonly operation: string
  readonly summary: string
  readonly method: Method
  readonly path: `/${string}`
  /** The path parameters and what each identifies. */
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  /** Checks of the body beyond its schema. Throws a refusal before any look-up. */
  readonly check?: (body: Static<B>, settings: InstallationSettings, isVendorClient: boolean) => void
  /** The body may repeat read-only fields of the response with their current values. */
  readonly acceptsResponse?: true
  /** Text fields that the vendor's clients send as "" when omitted. Here "" would clear them. */
  readonly vendorDefaults?: readonly string[]
  /** Limit of a JSON body, at most `maxJsonBytes`. Default: 64 KiB. */
  readonly bodyLimitBytes?: number
  /** Other content types of the body, with a streaming reader for each. `body` does not validate them. */
  readonly otherBodies?: Readonly<Record<string, OtherBody<Static<B>>>>
  /**
   * Refuses callers who may not use the operation before a body beyond `maxJsonBytes` is read. The handler checks
   * again; this only avoids the upload.
   */
  readonly beforeLargeBody?: (
    request: Pick<Handling<ParamsOf<P>, never, never>, 'db' | 'caller' | 'params'>,
  ) => Promise<void>
  /**
   * The operation can take seconds, so each account may run only a few at once, on a limited share of the connections.
   */
  readonly heavy?: HeavyKind
  /** Absent for 204. */
  readonly response?: R
  /** Renderers for other content types of the response, chosen by `Accept`. */
  readonly otherResponses?: Readonly<Record<string, (response: Static<R>) => Iterable<string>>>
  /** Writes a response that is too long for one piece of JSON in slices. */
  readonly slices?: (response: Static<R>) => Iterable<string>
  /** Data schema of each event, by event name, if the operation returns a stream instead of a response. */
  readonly events?: Readonly<Record<string, TSchema>>
  readonly success: 200 | 201 | 204
  /** Successful responses have an ETag. */
  readonly tagged?: true
  /** `admin`: other roles are refused before any look-up. */
  readonly access: 'anyone' | 'admin'
  /** The part that the handler reserves for admins with ERR_FORBIDDEN. Completes the sentence 'Only admins can …'. */
  readonly adminsOnly?: string
  /** Allowed for viewers although it is not a GET: it changes nothing, or only the caller's own session. */
  readonly openToViewers?: true
  /** Changes nothing although it is not a GET. */
  readonly onlyAsks?: true
  /** Response field with a secret that this call creates. */
  readonly secret?: string
  /** Cannot be part of a change set: it waits for other machines, or manages change sets. */
  readonly alone?: true
  /** The body contains the token; a cookie is ignored. */
  readonly signsIn?: true
  /** Its success sets or clears the session cookie. */
  readonly setsCookie?: true
  /**
   * Creates, changes or revokes keys, directly or with their owner. Refused for a token that a rotation has replaced.
   */
  readonly managesKeys?: true
  /** Errors beyond those that follow from the route's form. */
  readonly errors?: readonly ErrorCode[]
  readonly handle: (request: Handling<ParamsOf<P>, Static<Q>, Static<B>>) => Promise<Result<Static<R>>>
}

// biome-ignore lint/suspicious/noExplicitAny: a list of routes holds handlers of many request types; route() checked each.
export type Route = RouteShape<any, any, any, any>

/** The least role that may call the route. Viewers may only read unless the route says otherwise. */
export function leastRole({ access, method, openToViewers }: Route): Role {
  if (access === 'admin') return 'admin'
  return method === 'GET' || openToViewers ? 'viewer' : 'member'
}

/** Every change accepts `dry_run`; see dry_run.ts. */
const isChange = ({ method, onlyAsks }: Pick<Route, 'method' | 'onlyAsks'>): boolean => method !== 'GET' && !onlyAsks

/**
 * Whether it can be stored in a change set, shown to others and applied later. Excludes operations that involve secrets
 * or sessions.
 */
export const canBePlanned = (route: Route): boolean =>
  isChange(route) &&
  !(route.alone || route.secret || route.signsIn || route.setsCookie || route.openToViewers) &&
  !Object.values(route.body?.properties ?? {}).some((field) => Reflect.get(field as object, 'writeOnly') === true)

/**
 * Defines one operation of the API. The server, openapi.json, the command line and the coverage tests all read these.
 */
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
