import type { IncomingMessage } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { Admission, Call } from '../access/admission.ts'
import type { Evaluate } from '../access/decisions.ts'
import type { Use } from '../access/evidence/usage_buffer.ts'
import type { DbPool } from '../db/pool.ts'
import {
  type Authentication,
  bearerToken,
  type Caller,
  findCaller,
  findCallerBySession,
  noteSessionUse,
  type Traffic,
  tokenReplaced,
} from '../identity/caller.ts'
import { sessionSecretIn } from '../identity/session_cookie.ts'
import type { SignInLimiter } from '../identity/sign_in_limiter.ts'
import type { Clock } from '../kernel/clock.ts'
import { forbidden, invalidField, notFound, Refusal } from '../kernel/errors.ts'
import { type Id, type IdPrefix, isId, toUuid, type Uuid } from '../kernel/ids.ts'
import { type Address, formatAddress } from '../kernel/ip/address.ts'
import type { CompiledPolicy } from '../kernel/ip/ranges.ts'
import { sourceAddress } from '../kernel/ip/source.ts'
import { declaredLength, declaredType, hasBody, maxJsonBytes, readJson, refuseBody, tooLarge } from './body.ts'
import { type EdgeView, waitAppliedMs } from './edges.ts'
import type { HeavyOperations } from './heavy.ts'
import type { InstallationSettings, ParamKind, Result, Route } from './route.ts'
import { cameFromBrowser, refuseOtherSites } from './same_site.ts'
import { parseQuery, type Validator, validator } from './validate.ts'
import { type DropDefaults, dropDefaults, isVendorClient } from './vendor_clients.ts'
import { Closed } from './wire.ts'

/** What every request may use. */
export type Service = {
  readonly db: DbPool
  /** The database as an account may use it: with a share of the connections. */
  readonly dbOf: (accountId: Uuid) => DbPool
  readonly heavy: HeavyOperations
  readonly clock: Clock
  readonly publicUrl: string
  /** Lower-case names of the headers that may carry the version. */
  readonly versionHeaders: readonly string[]
  readonly trustedProxies: CompiledPolicy
  readonly evaluate: Evaluate
  readonly settings: InstallationSettings
  readonly edges: EdgeView
  /** Judges a call by the IP restrictions of the caller's account for this traffic. */
  readonly admit: (call: Call) => Promise<Admission>
  /** Whether a dashboard session's cookie is taken in place of a token. */
  readonly dashboard: boolean
  readonly signInLimiter: SignInLimiter
  /** Told of every call with a good token, before anything can refuse it. */
  readonly noteUse: (use: Use) => void
}

/** What the log line of a request contains besides method, status and time. Filled in as it becomes known. */
export type RequestFacts = {
  operation?: string
  caller?: Caller
  /** Why the token was not good, if that is why. */
  expiredKeyId?: Id<'ak'>
  sourceIp?: string
  /** The restriction that refused this call, and those that would have if they were enforced. */
  refusedBy?: Id<'ipx'>
  warnedBy?: readonly Id<'ipx'>[]
  error?: unknown
  /** Gives back the turn of a heavy operation. */
  endTurn?: () => void
}

export type Answer = { readonly body: unknown; readonly headers: Record<string, string> }

export type PreparedRoute = Route & {
  readonly checkQuery: Validator
  readonly checkBody?: Validator
  readonly dropDefaults: DropDefaults
}

const NoQuery = Closed({})
const defaultBodyLimitBytes = 64 * 1024

export function prepare(route: Route): PreparedRoute {
  if ((route.bodyLimitBytes ?? 0) > maxJsonBytes)
    throw new Error(`${route.operation} reads JSON of more than ${maxJsonBytes} bytes`)
  return {
    ...route,
    checkQuery: validator(route.query ?? NoQuery, 'query'),
    dropDefaults: dropDefaults(route),
    ...(route.body && { checkBody: validator(route.body, 'body') }),
  }
}

/** The checks of the contract, in its order: the first that fails answers. Routing (404, 405) came before. */
export async function answer(
  service: Service,
  route: PreparedRoute,
  request: FastifyRequest,
  facts: RequestFacts,
): Promise<Answer> {
  const { raw } = request
  const operationId = request.id as Id<'op'>
  facts.operation = route.operation
  if (raw.headersDistinct.host?.length !== 1)
    throw new Refusal('ERR_MALFORMED_REQUEST', 'Send exactly one Host header.')
  checkVersion(raw.headersDistinct, service.versionHeaders)

  const source = sourceAddress(raw.socket.remoteAddress, raw.headersDistinct['x-forwarded-for'], service.trustedProxies)
  const sourceIp = source && formatAddress(source)
  facts.sourceIp = sourceIp
  const enter = async ({ caller: found, replacedToken, expiredKeyId }: Authentication): Promise<Caller> => {
    facts.expiredKeyId = expiredKeyId
    if (!found)
      throw new Refusal(
        'ERR_UNAUTHENTICATED',
        route.signsIn
          ? 'The token is not valid. Use the token of an active API key.'
          : "Send 'Authorization: Bearer <token>' with the token of an active API key.",
      )
    facts.caller = found
    service.noteUse({ caller: found, sourceIp, replacedToken })
    await admit(service, { caller: found, source, operation: route.operation, operationId }, facts)
    if (route.signsIn && found.ownerId.startsWith('bot_'))
      throw forbidden('Bots cannot sign in to the dashboard. Use the API key of a user.')
    if (found.sessionId) await noteSessionUse(service.db, found, toUuid(found.sessionId))
    return found
  }
  // The token of who signs in is in the body: it is looked at when that has been read.
  const known = route.signsIn ? undefined : await enter(await identify(service, raw))

  const turn = route.heavy && known && (await service.heavy.enter(route.heavy, known.accountId, raw.socket))
  facts.endTurn = turn?.end

  const readQuery = () => {
    const query = parseQuery(route.query ?? NoQuery, request.query as Record<string, unknown>)
    route.checkQuery(query)
    return query
  }
  const readParams = () => checkIds(route.params ?? {}, request.params as Record<string, string>)
  // A body of a size that anybody may send is read first, as the contract has it. Beyond that, only for who can use it.
  const beforeLarge = async () => {
    if (!known) return
    readQuery()
    permit(route, known)
    await route.beforeLargeBody?.({ db: service.dbOf(known.accountId), caller: known, params: readParams() })
  }
  const [otherType] = Object.keys(route.otherBodies ?? {})
  const other = route.otherBodies?.[declaredType(raw)]
  if (other && declaredLength(raw) > other.limitBytes) throw tooLarge(other.limitBytes)
  const fromVendor = isVendorClient(raw.headersDistinct, service.versionHeaders)
  const read = async () => {
    // Its Python client sends no body, and no content type, for a module without settings.
    if (fromVendor && route.method === 'PUT' && !hasBody(raw)) return {}
    const json = await readJson(raw, route.bodyLimitBytes ?? defaultBodyLimitBytes, otherType)
    return fromVendor ? route.dropDefaults(json) : json
  }
  const body = other
    ? await other.read(raw, { limitBytes: other.limitBytes, beforeLarge, hold: turn?.hold ?? (() => {}) })
    : route.body
      ? await read()
      : await refuseBody(raw)
  const query = readQuery()
  if (!other) route.checkBody?.(body)
  route.check?.(body, service.settings, fromVendor)
  checkRepeatedId(body, request.params as Record<string, string>)
  const caller = known ?? (await enter(await signingIn(service, raw, source, body as { token: string })))
  permit(route, caller)
  const params = readParams()

  await turn?.begin()
  const result = await route.handle({
    db: service.dbOf(caller.accountId),
    clock: service.clock,
    evaluate: service.evaluate,
    settings: service.settings,
    edges: service.edges,
    uri: (path) => service.publicUrl + path,
    origin: {
      accountId: caller.accountId,
      operation: route.operation,
      operationId,
      caller,
      sourceIp,
    },
    caller,
    params,
    query,
    body,
    ifMatch: raw.headersDistinct['if-match']?.join(', '),
    idempotencyKey: raw.headersDistinct['idempotency-key']?.join(', '),
  })
  const applied = await tellEdges(service, result, query.wait === 'applied', facts)
  return { body: result.body, headers: { ...headersOf(result), ...applied } }
}

const headersOf = ({ etag, generation, replayed, warnings, cookie }: Result<unknown>): Record<string, string> => ({
  ...(etag && { ETag: etag }),
  ...(generation !== undefined && { 'Service-Generation': String(generation) }),
  ...(replayed && { 'Idempotency-Replayed': 'true' }),
  ...(warnings?.length && { 'Service-Warning': warnings.join(', ') }),
  ...(cookie && { 'Set-Cookie': cookie }),
})

/** What can be decided by the route and the caller alone. */
function permit(route: Route, caller: Caller): void {
  if (route.access === 'admin' && caller.role !== 'admin') throw forbidden('Only admins can do this.')
  if (caller.tokenReplaced && (route.managesKeys || route.signsIn)) throw tokenReplaced(caller)
}

/** By the token if there is one, and else by the cookie of a dashboard session. */
async function identify(service: Service, raw: IncomingMessage): Promise<Authentication> {
  const { authorization, cookie } = raw.headersDistinct
  const secret = service.dashboard && !authorization ? sessionSecretIn(service.publicUrl, cookie) : undefined
  if (secret === undefined) return findCaller(service.db, bearerToken(authorization))
  if (raw.method !== 'GET' && raw.method !== 'HEAD') refuseOtherSites(raw, service.publicUrl)
  return findCallerBySession(service.db, secret)
}

async function signingIn(
  service: Service,
  raw: IncomingMessage,
  source: Address | undefined,
  { token }: { token: string },
): Promise<Authentication> {
  if (cameFromBrowser(raw)) refuseOtherSites(raw, service.publicUrl)
  const found = await findCaller(service.db, token, 'dashboard')
  // A good token is never refused for the failures of others who share its address.
  const waitSeconds = found.caller ? 0 : service.signInLimiter.countFailure(source)
  if (waitSeconds > 0)
    throw new Refusal(
      'ERR_TOO_MANY_ATTEMPTS',
      `The token is not valid, and too many sign-ins from this address have failed. Try again in ${waitSeconds} s.`,
      { details: { retry_after_seconds: String(waitSeconds) } },
    )
  return found
}

/** For a change that concerns edges: wakes the publisher and, if asked to, waits until the change is in force. */
async function tellEdges(
  { edges }: Service,
  { generation }: Result<unknown>,
  wait: boolean,
  { endTurn }: RequestFacts,
): Promise<Record<string, string>> {
  if (generation === undefined) return {}
  edges.committed()
  if (!wait) return {}
  endTurn?.()
  const { live, applied, behind } = await edges.waitFor(generation, waitAppliedMs)
  return {
    'Service-Applied': `${applied.length}/${live.length}`,
    ...(behind.length && { 'Service-Behind': behind.map(({ node }) => node).join(', ') }),
  }
}

const usedBySession: Record<Traffic, string> = {
  dashboard: 'use the dashboard',
  api: 'use the dashboard, because it is not allowed to call the API',
}

async function admit(service: Service, call: Call, facts: RequestFacts): Promise<void> {
  if (!call.caller.restricted) return
  const { refusedBy, refusedType, warnedBy } = await service.admit(call)
  facts.warnedBy = warnedBy
  if (!refusedBy) return
  facts.refusedBy = refusedBy
  // Say nothing about the rules: the caller may be the attacker they keep out.
  throw new Refusal(
    'ERR_IP_REFUSED',
    `Your address is not allowed to ${call.caller.traffic === 'dashboard' ? usedBySession[refusedType ?? 'dashboard'] : 'call this API'}. Give the operation id to an admin of your account.`,
  )
}

function checkVersion(headers: NodeJS.Dict<string[]>, names: readonly string[]): void {
  const values = names.flatMap((name) => headers[name] ?? [])
  const eachOnce = names.every((name) => (headers[name]?.length ?? 0) <= 1)
  if (values.length && eachOnce && values.every((value) => value === '2')) return
  throw new Refusal('ERR_SERVICE_VERSION', "Send the header 'Service-Version: 2' exactly once.")
}

/** A body may repeat the id of its path, as generated clients do, but not name another. */
function checkRepeatedId(body: unknown, params: Record<string, string>): void {
  for (const name of ['edge_id', 'id']) {
    const repeated = (body as Record<string, unknown> | undefined)?.[name]
    if (repeated !== undefined && params[name] !== undefined && repeated !== params[name])
      throw invalidField(name, 'must equal the id in the path, or be omitted')
  }
}

// Not part of the schema, because a malformed id must look exactly like one that does not exist, after all other checks.
// The last one is what the path is about: whichever is wrong, that is what is not there.
function checkIds(expected: Record<string, ParamKind>, given: Record<string, string>): Record<string, Id> {
  const prefixes = Object.entries(expected)
  const fits = (kind: ParamKind, text = '') => (kind === 'number' ? /^\d{1,15}$/.test(text) : isId(kind, text))
  const wrong = prefixes.some(([name, kind]) => !fits(kind, given[name]))
  const target = prefixes.at(-1)?.[1]
  if (wrong)
    throw target === 'number'
      ? new Refusal('ERR_NOT_FOUND', 'The generation must be a whole number.')
      : notFound(target as IdPrefix)
  return given as Record<string, Id>
}
