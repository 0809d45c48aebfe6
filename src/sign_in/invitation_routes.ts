import { admit } from '../access/admission.ts'
import type { Db } from '../db/pool.ts'
import { transaction } from '../db/transaction.ts'
import { readJson } from '../http/input/body.ts'
import { cameFromBrowser, refuseOtherSites } from '../http/input/same_site.ts'
import { limitReached } from '../http/limits/rate_limits.ts'
import type { PlainAnswer, PlainRequest, PlainRoute } from '../http/plain.ts'
import { findCaller } from '../identity/caller.ts'
import { hashToken, isWellFormedInvitationSecret, newToken } from '../identity/token.ts'
import { forbidden, Refusal } from '../kernel/errors.ts'
import { createRateLimiter } from '../kernel/flow/rate_limiter.ts'
import { toId } from '../kernel/ids.ts'
import { recordChange } from '../operations/audit.ts'
import { findApiKey } from '../resources/api_keys/store.ts'
import { stableApiKeyFields, toApiKey } from '../resources/api_keys/view.ts'
import {
  acceptInvitation,
  holdInvitation,
  type OpenedInvitation,
  openInvitation,
} from '../resources/user_invitations/store.ts'
import { shownInvitation } from '../resources/user_invitations/view.ts'
import type { SignInParts } from './parts.ts'

type Parts = Pick<SignInParts, 'service' | 'warn'>

const bodyLimitBytes = 1_024
// An expired link can be opened repeatedly, which must not fill the account's audit log.
const eventsPerAccount = { requests: 60, seconds: 60 }
const maxAccounts = 1_000

/**
 * Lets an invited person collect a key. The link carries its secret in the fragment, and the dashboard sends it in a
 * body. Looking at an invitation changes nothing, so programs that open links in messages cannot use it up.
 */
export function invitationRoutes(parts: Parts): readonly PlainRoute[] {
  const { service } = parts
  const limiter = createRateLimiter(service.clock, maxAccounts)

  /** Wrong secrets count like wrong tokens. */
  async function open(request: PlainRequest, use: (secretHash: Buffer) => Promise<OpenedInvitation | undefined>) {
    if (!service.settings.tokenSignIn)
      throw forbidden('Invitations are switched off with signing in by API key. Ask your admin how to sign in.')
    if (cameFromBrowser(request.raw)) refuseOtherSites(request.raw, service.publicUrl)
    const secret = await secretOf(request)
    const found = isWellFormedInvitationSecret(secret) ? await use(hashToken(secret)) : undefined
    if (found) return found
    service.metrics.countSignIn('invitation', 'unknown')
    const limit = service.rateLimits.countFailure(request.source, true)
    if (limit?.allowance.allowed !== false) return undefined
    request.facts.limitUse = limit
    throw limitReached(limit)
  }

  async function noteOver(request: PlainRequest, { account_id, user_id, state }: OpenedInvitation): Promise<void> {
    const { operationId, sourceIp } = request
    service.metrics.countSignIn('invitation', state)
    parts.warn(
      { operation_id: operationId, reason: state, source_ip: sourceIp },
      'an invitation that is over was opened',
    )
    if (!limiter.take(account_id, eventsPerAccount).allowed) return
    await recordChange(
      service.db,
      { accountId: account_id, operation: 'sign_in.failed', operationId, ...(sourceIp && { sourceIp }) },
      { resourceId: toId('usr', user_id), before: null, after: { method: 'invitation', reason: state } },
    )
  }

  return [
    {
      operation: 'sign_in.look_at_invitation',
      method: 'POST',
      path: '/sign_in/invitation',
      async handle(request) {
        const found = await open(request, (secretHash) => openInvitation(service.db.lookUps, secretHash))
        if (found && found.state !== 'waiting') await noteOver(request, found)
        return answerWith(found)
      },
    },
    {
      operation: 'sign_in.accept_invitation',
      method: 'POST',
      path: '/sign_in/invitation/accept',
      async handle(request) {
        let accepted: object | undefined
        const found = await open(request, (secretHash) =>
          transaction(service.db, async (tx) => {
            await holdInvitation(tx, secretHash)
            const opened = await openInvitation(tx, secretHash)
            if (opened?.state === 'waiting') accepted = await accept(parts, tx, request, opened)
            return opened
          }),
        )
        if (accepted) {
          service.metrics.countSignIn('invitation', 'succeeded')
          return { status: 200, body: accepted }
        }
        if (found) await noteOver(request, found)
        return answerWith(found)
      },
    },
  ]
}

async function secretOf({ raw }: PlainRequest): Promise<string> {
  const body = await readJson(raw, bodyLimitBytes)
  const secret = typeof body === 'object' && body !== null && 'secret' in body ? body.secret : ''
  return typeof secret === 'string' ? secret : ''
}

/** Details while the invitation can be accepted; afterwards only the state. */
function answerWith(found: OpenedInvitation | undefined): PlainAnswer {
  if (found?.state !== 'waiting') return { status: 200, body: { state: found?.state ?? 'unknown' } }
  const { state, name, email, role, account_name, expires_at } = found
  return { status: 200, body: { state, name, email, role, account_name, expires_at } }
}

/** Gives the waiting key a token, unless the account's restrictions refuse the address; then the link stays valid. */
async function accept({ service }: Parts, tx: Db, request: PlainRequest, opened: OpenedInvitation): Promise<object> {
  const { operationId, source, sourceIp, facts } = request
  const operation = 'sign_in.accept_invitation'
  const uri = (path: string) => service.publicUrl + path
  const account = { accountId: opened.account_id }
  const keyId = opened.api_key_id && toId('ak', opened.api_key_id)
  const before = keyId && (await findApiKey(tx, account, keyId, false))
  const token = newToken()
  const taken = await acceptInvitation(tx, opened, hashToken(token))
  const after = keyId && (await findApiKey(tx, account, keyId, false))
  const { caller } = await findCaller(tx, token, source, 'dashboard')
  if (!before || !after || !taken || !caller)
    throw forbidden('The invitation cannot be accepted from your address. Ask the admin who invited you.')
  facts.caller = caller
  const { refusedBy } = caller.restricted ? await admit(service, { caller, source, operation, operationId }) : {}
  if (refusedBy) {
    facts.refusedBy = refusedBy
    service.metrics.observeRestriction('refused')
    throw new Refusal(
      'ERR_IP_REFUSED',
      'Your address is not allowed to use the dashboard. Open the link again from an allowed address, or give the operation id to an admin of your account.',
    )
  }
  const origin = { ...account, operation, operationId, caller, ...(sourceIp && { sourceIp }) }
  const [keyBefore, keyAfter] = [before, after].map((key) => stableApiKeyFields(toApiKey(key, uri)))
  await recordChange(tx, origin, {
    resourceId: after && toId('ak', after.id),
    before: keyBefore ?? null,
    after: keyAfter ?? null,
  })
  const accepted = { ...opened, accepted_at: taken.accepted_at, state: 'accepted' } as const
  await recordChange(tx, origin, {
    resourceId: toId('usr', opened.user_id),
    before: shownInvitation(opened, opened, uri),
    after: shownInvitation(opened, accepted, uri),
  })
  return { state: 'accepted', token, expires_at: after.expires_at }
}
