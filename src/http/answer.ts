import type { Readable } from 'node:stream'
import type { DbPool } from '../db/pool.ts'
import type { Caller } from '../identity/caller.ts'
import { toId } from '../kernel/ids.ts'
import { formatAddress } from '../kernel/ip/address.ts'
import { sourceAddress } from '../kernel/ip/source.ts'
import { breakGlass, isForApproval, propose, reasonOf } from './approval/approval.ts'
import { urgentOf } from './approval/urgent.ts'
import { identify, identifySigningIn, isStillLetIn, letIn } from './authentication.ts'
import { checkHost, checkIds, checkRepeatedId, checkVersion, isPermitted, permit } from './checks.ts'
import { dryRunResult } from './dry_run.ts'
import { waitAppliedMs, waitReleasedMs } from './edges.ts'
import type { Events } from './event_stream.ts'
import { checkedQuery, handleOn, type Incoming, nothingRepeated, originOf, splitBody } from './handling.ts'
import { declaredLength, declaredType, hasBody, readJson, refuseBody, refuseCoding, tooLarge } from './input/body.ts'
import type { Repeated } from './read_only.ts'
import type { RequestFacts } from './request_facts.ts'
import type { Result, Route } from './route.ts'
import type { Service } from './service.ts'
import { isVendorClient, vendorBody } from './vendor_clients.ts'

export type Answer = { readonly body: unknown; readonly headers: Record<string, string>; readonly stream?: Readable }

/**
 * The first checks, in Fastify's onRequest. `enter` and `answer` are the contract's order of checks: whichever fails first
 * determines the response. Routing (404, 405) comes before them.
 */
export async function enter({ service, route, operationId, raw, facts }: Incoming): Promise<void> {
  facts.operation = route.operation
  checkHost(raw.headersDistinct)
  checkVersion(raw.headersDistinct, service.versionHeaders)
  const forwarded = raw.headersDistinct['x-forwarded-for']
  facts.source = sourceAddress(raw.socket.remoteAddress, forwarded, service.trustedProxies)
  facts.sourceIp = facts.source && formatAddress(facts.source)
  // A sign-in carries its token in the body, so its caller is identified once the body has been read.
  if (!route.signsIn) await letIn(service, route, operationId, facts, await identify(service, raw, facts))
}

/** Runs the remaining checks and the handler. */
export async function answer(incoming: Incoming): Promise<Answer> {
  const { service, route, raw, facts } = incoming
  if (route.heavy && facts.caller)
    facts.turn = await service.heavy.enter(route.heavy, facts.caller.accountId, raw.socket)
  const fromVendor = isVendorClient(raw.headersDistinct, service.versionHeaders)
  const whole = await readBody(incoming, fromVendor)
  const { body, repeated } = splitBody(route, whole)
  const query = checkedQuery(route, incoming.query)
  if (!otherBody(incoming)) route.checkBody?.(body)
  route.check?.(body, service.settings, fromVendor)
  checkRepeatedId(body, incoming.params)
  const { caller, result } = facts.caller
    ? await perform(incoming, facts.caller, query, body, repeated, whole)
    : await signIn(incoming, query, body as { token: string })
  if (route.method !== 'GET') service.changes.ring()
  const applied = await tellEdges(service, caller, result, query.wait, facts)
  const stream = result.events && openStream(incoming, caller, result.events)
  if (result.brokeGlass) service.metrics.countBreakGlass()
  const isAnother = facts.isDryRun || facts.isProposed
  const shown = fromVendor && !isAnother ? vendorBody(route, raw, result.body) : result.body
  return {
    body: shown,
    headers: { ...headersOf(result), ...locationOf(route, result.body, facts), ...applied },
    ...(stream && { stream }),
  }
}

/**
 * Closes the stream when its request would no longer be allowed, or when the caller's role changes: the role decides
 * which events it shows.
 */
function openStream({ service, route, raw, facts }: Incoming, caller: Caller, events: Events): Readable {
  return service.streams.open(caller, events, async () => {
    const now = await isStillLetIn(service, raw, facts.source)
    return now?.accountId === caller.accountId && now.role === caller.role && isPermitted(route, now)
  })
}

const defaultBodyLimitBytes = 64 * 1024

const otherBody = ({ route, raw }: Incoming) => route.otherBodies?.[declaredType(raw)]

async function readBody(incoming: Incoming, fromVendor: boolean): Promise<unknown> {
  const { route, raw, facts } = incoming
  const other = otherBody(incoming)
  if (other) {
    refuseCoding(raw)
    const { limitBytes } = other
    if (declaredLength(raw) > limitBytes) throw tooLarge(limitBytes)
    const hold = facts.turn?.hold ?? (() => {})
    return other.read(raw, { limitBytes, beforeLarge: () => beforeLargeBody(incoming), hold })
  }
  if (!route.body) return refuseBody(raw)
  // The vendor's Python client sends neither a body nor a content type for a module without settings.
  if (fromVendor && route.method === 'PUT' && !hasBody(raw)) return {}
  const [largerAs] = Object.keys(route.otherBodies ?? {})
  const json = await readJson(raw, route.bodyLimitBytes ?? defaultBodyLimitBytes, largerAs)
  return fromVendor ? route.dropDefaults(json) : json
}

/**
 * Larger bodies are read only for callers who may use the operation. Smaller ones are read before these checks, in the
 * contract's order.
 */
async function beforeLargeBody(incoming: Incoming): Promise<void> {
  const { service, route, facts } = incoming
  if (!facts.caller) return
  checkedQuery(route, incoming.query)
  permit(route, facts.caller)
  const params = checkIds(route.params ?? {}, incoming.params)
  await route.beforeLargeBody?.({ db: service.dbOf(facts.caller.accountId), caller: facts.caller, params })
}

/** Authenticates the caller by the token in the body. Records every reason for refusing it. */
async function signIn(incoming: Incoming, query: Record<string, unknown>, body: { token: string }) {
  const { service, route, operationId, raw, facts } = incoming
  const { token } = body
  try {
    const identified = await identifySigningIn(service, raw, facts, token)
    return await perform(incoming, await letIn(service, route, operationId, facts, identified), query, body)
  } catch (error) {
    const { caller, sourceIp, outsideRangesKeyId } = facts
    const isOutsideRanges = outsideRangesKeyId !== undefined
    service.noteFailedSignIn({ operationId, sourceIp, token, caller, isOutsideRanges, error })
    throw error
  }
}

async function perform(
  incoming: Incoming,
  caller: Caller,
  query: Record<string, unknown>,
  body: unknown,
  repeated: Repeated = nothingRepeated,
  /** The body including its read-only fields. */
  whole: unknown = body,
) {
  const { service, route, raw, facts } = incoming
  permit(route, caller)
  const params = checkIds(route.params ?? {}, incoming.params)
  await facts.turn?.begin()
  const isDryRun = query.dry_run === true
  facts.isDryRun = isDryRun
  const ifMatch = raw.headersDistinct['if-match']?.join(', ')
  const idempotencyKey = raw.headersDistinct['idempotency-key']?.join(', ')
  const reason = reasonOf(incoming, caller, query)
  const urgent = await urgentOf(incoming, caller, query)
  if (urgent) facts.urgent = urgent
  const sent = { params, query, body, repeated, ifMatch, idempotencyKey, breakGlass: reason, isPart: isDryRun }
  const on = (db: DbPool) => handleOn(db, incoming, route, caller, sent)
  const db = service.dbOf(caller.accountId)
  const forApproval = isForApproval(route, caller)
  if (!isDryRun) {
    if (!forApproval) return { caller, result: await on(db) }
    if (reason === undefined) {
      const json = otherBody(incoming)?.toJson
      const kept = json ? await json({ db, caller, params }, body) : (whole as object | undefined)
      return { caller, result: await propose(db, incoming, caller, sent, kept) }
    }
    const why = { origin: originOf(incoming, route, caller), reason, resource: toId('ac', caller.accountId) }
    return { caller, result: await breakGlass(db, incoming, why, on) }
  }
  const { confirm, ignore_access_tests } = route.query?.properties ?? {}
  const rehearsed = await service.rehearse(db, { ...originOf(incoming, route, caller), caller }, on, {
    ...{ now: service.clock(), edges: service.edges, uri: (path) => service.publicUrl + path },
    unusualAbove: confirm && service.settings.unusualAbove,
    isTested: ignore_access_tests !== undefined,
  })
  return { caller, result: dryRunResult(route, rehearsed, forApproval && reason === undefined) }
}

/**
 * Call it after a change that concerns edges: wakes the publisher and, if requested, waits until the change is in
 * force.
 */
async function tellEdges(
  { edges }: Service,
  { accountId }: Pick<Caller, 'accountId'>,
  { generation }: Result<unknown>,
  wait: unknown,
  { turn, urgent }: RequestFacts,
): Promise<Record<string, string>> {
  if (generation === undefined) return {}
  edges.committed()
  const takesAlong: Record<string, string> = urgent?.along.length
    ? { 'Service-Takes-Along': namesOf(urgent.along) }
    : {}
  if (wait === undefined) return takesAlong
  turn?.end()
  const { live, applied, behind } =
    wait === 'released'
      ? await edges.waitForAll(generation, accountId, waitReleasedMs)
      : await edges.waitFor(generation, accountId, waitAppliedMs)
  return {
    ...takesAlong,
    'Service-Applied': `${applied.length}/${live.length}`,
    ...(behind.length && { 'Service-Behind': namesOf(behind.map(({ node }) => node)) }),
  }
}

/** Proxies refuse responses with large headers, and by then the change has been made. */
const maxNamesBytes = 1_024

function namesOf(names: readonly string[]): string {
  let text = ''
  for (const [index, name] of names.entries()) {
    if (text.length + name.length > maxNamesBytes) return `${text}, and ${names.length - index} more`
    text += index ? `, ${name}` : name
  }
  return text
}

const locationOf = ({ success }: Route, body: unknown, { isProposed }: RequestFacts): Record<string, string> => {
  const uri = success === 201 || isProposed ? (body as { uri?: unknown }).uri : undefined
  return typeof uri === 'string' ? { Location: uri } : {}
}

const headersOf = ({ etag, generation, replayed, warnings, cookie }: Result<unknown>): Record<string, string> => ({
  ...(etag && { ETag: etag }),
  ...(generation !== undefined && { 'Service-Generation': String(generation) }),
  ...(replayed && { 'Idempotency-Replayed': 'true' }),
  ...(warnings?.length && { 'Service-Warning': warnings.join(', ') }),
  ...(cookie && { 'Set-Cookie': cookie }),
})
