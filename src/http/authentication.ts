import type { IncomingMessage } from 'node:http'
import { admit, decide } from '../access/admission.ts'
import { noteOutcomes } from '../access/evidence/outcome_buffer.ts'
import { noteUse } from '../access/evidence/usage_buffer.ts'
import {
  type Authentication,
  bearerToken,
  type Caller,
  findCaller,
  findCallerBySession,
  noteSessionUse,
  type Traffic,
} from '../identity/caller.ts'
import { sessionSecretIn } from '../identity/session_cookie.ts'
import { forbidden, Refusal } from '../kernel/errors.ts'
import { type Id, toUuid } from '../kernel/ids.ts'
import type { Address } from '../kernel/ip/address.ts'
import { cameFromBrowser, refuseOtherSites } from './input/same_site.ts'
import { limitReached } from './limits/rate_limits.ts'
import type { RequestFacts } from './request_facts.ts'
import type { Route } from './route.ts'
import type { Service } from './service.ts'

/** Identifies the caller by token, or by the cookie of a dashboard session if there is no token. */
export async function identify(service: Service, raw: IncomingMessage, facts: RequestFacts): Promise<Authentication> {
  const { authorization, cookie } = raw.headersDistinct
  facts.sentToken = authorization !== undefined
  const secret = service.dashboard && !authorization ? sessionSecretIn(service.publicUrl, cookie) : undefined
  if (secret === undefined) return findCaller(service.db.lookUps, bearerToken(authorization), facts.source)
  if (raw.method !== 'GET' && raw.method !== 'HEAD') refuseOtherSites(raw, service.publicUrl)
  return findCallerBySession(service.db.lookUps, secret, facts.source)
}

/** Identifies the caller of a sign-in by the token in the body. */
export async function identifySigningIn(
  service: Service,
  raw: IncomingMessage,
  facts: RequestFacts,
  token: string,
): Promise<Authentication> {
  if (!service.settings.tokenSignIn)
    throw forbidden(
      'Signing in with the token of an API key is switched off. Use one of the providers of the sign-in page.',
    )
  if (cameFromBrowser(raw)) refuseOtherSites(raw, service.publicUrl)
  facts.sentToken = true
  return findCaller(service.db.lookUps, token, facts.source, 'dashboard')
}

/** Checks the account's IP restrictions and the key's rate limit for an identified caller. */
export async function letIn(
  service: Service,
  { operation, signsIn }: Route,
  operationId: Id<'op'>,
  facts: RequestFacts,
  { caller, replacedToken, expiredKeyId, outsideRanges }: Authentication,
): Promise<Caller> {
  facts.expiredKeyId = expiredKeyId
  if (outsideRanges) {
    const { accountId, apiKeyId } = outsideRanges
    facts.outsideRangesKeyId = apiKeyId
    service.recordRefusedKey({ accountId, operation, operationId, caller: outsideRanges, sourceIp: facts.sourceIp })
  }
  if (!caller) throw unknownCaller(service, signsIn ?? false, facts)
  facts.caller = caller
  noteUse(service.usageBuffer, { caller, sourceIp: facts.sourceIp, replacedToken }, service.clock())
  // Most accounts have no restriction, so this avoids a look-up.
  if (caller.restricted) await refuseAddress(service, { caller, source: facts.source, operation, operationId }, facts)
  else noteOutcomes(service.outcomeBuffer, caller, facts.sourceIp, [], service.clock())
  facts.limitUse = service.rateLimits.countRequest(caller)
  if (facts.limitUse?.allowance.allowed === false) throw limitReached(facts.limitUse)
  if (signsIn && caller.ownerId.startsWith('bot_'))
    throw forbidden('Bots cannot sign in to the dashboard. Use the API key of a user.')
  if (caller.sessionId) await noteSessionUse(service.db, caller, toUuid(caller.sessionId))
  return caller
}

/** Rechecks the credentials and address of a request while its stream is open. Counts nothing. */
export async function isStillLetIn(
  service: Service,
  raw: IncomingMessage,
  source: Address | undefined,
): Promise<Caller | undefined> {
  const { caller } = await identify(service, raw, { source })
  if (!caller?.restricted) return caller
  const { refusal } = await decide(service.evaluate, caller, source)
  return refusal ? undefined : caller
}

/**
 * Counts failures only after the look-up: others behind the same address must not block a valid token. A request
 * without a token guesses nothing; browser sessions simply end.
 */
function unknownCaller({ rateLimits }: Service, signsIn: boolean, facts: RequestFacts): Refusal {
  const use = facts.sentToken ? rateLimits.countFailure(facts.source, signsIn) : undefined
  if (use?.allowance.allowed === false) {
    facts.limitUse = use
    return limitReached(use)
  }
  return new Refusal(
    'ERR_UNAUTHENTICATED',
    signsIn
      ? 'The token is not valid. Use the token of an active API key.'
      : "Send 'Authorization: Bearer <token>' with the token of an active API key.",
  )
}

const usedBySession: Record<Traffic, string> = {
  dashboard: 'use the dashboard',
  api: 'use the dashboard, because it is not allowed to call the API',
}

async function refuseAddress(service: Service, call: Parameters<typeof admit>[1], facts: RequestFacts): Promise<void> {
  const { refusedBy, refusedType, warnedBy } = await admit(service, call)
  facts.warnedBy = warnedBy
  for (const _ of warnedBy) service.metrics.observeRestriction('warned')
  if (!refusedBy) return
  facts.refusedBy = refusedBy
  service.metrics.observeRestriction('refused')
  // The message reveals no rules: the caller may be the attacker that they keep out.
  throw new Refusal(
    'ERR_IP_REFUSED',
    `Your address is not allowed to ${call.caller.traffic === 'dashboard' ? usedBySession[refusedType ?? 'dashboard'] : 'call this API'}. Give the operation id to an admin of your account.`,
  )
}
