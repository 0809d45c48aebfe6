import { transaction } from '../db/transaction.ts'
import { readForm } from '../http/input/body.ts'
import { refuseOtherSites } from '../http/input/same_site.ts'
import type { PlainAnswer, PlainRequest, PlainRoute } from '../http/plain.ts'
import { findCallerBySession } from '../identity/caller.ts'
import { endedSessionCookie, sessionSecretIn } from '../identity/session_cookie.ts'
import { toId } from '../kernel/ids.ts'
import { recordChange } from '../operations/audit.ts'
import { deleteProviderSessions, deleteSession, findSignedInBy } from '../resources/dashboard_session/store.ts'
import { loadOpenId, shortly } from './clients.ts'
import { accountOf } from './oidc.ts'
import type { SignInParts } from './parts.ts'
import type { Provider } from './provider.ts'
import { verifyLogoutToken } from './tokens.ts'

/** Routes for sign-in options, and for ending sessions here and at the provider. */
export const sessionRoutes = (parts: SignInParts, tokenSignIn: boolean): readonly PlainRoute[] => [
  {
    operation: 'sign_in.options',
    method: 'GET',
    path: '/sign_in/options',
    unlimited: true,
    handle: async () => ({
      status: 200,
      body: { token: tokenSignIn, providers: parts.providers.map(({ name, title }) => ({ name, title })) },
    }),
  },
  {
    operation: 'sign_in.sign_out',
    method: 'POST',
    path: '/sign_in/sign_out',
    unlimited: true,
    handle: (request) => signOut(parts, request),
  },
  {
    operation: 'sign_in.end_at_provider',
    method: 'POST',
    path: '/sign_in/oidc/:provider/backchannel_logout',
    handle: (request) => endAtProvider(parts, request),
  },
]

/** Ends the session here, and returns the URL that ends the provider's session. */
async function signOut(parts: SignInParts, { raw, source, operationId, sourceIp, facts }: PlainRequest) {
  const { service, providers } = parts
  const { db, publicUrl } = service
  refuseOtherSites(raw, publicUrl)
  const { caller } = await findCallerBySession(db, sessionSecretIn(publicUrl, raw.headersDistinct.cookie), source)
  const ended: PlainAnswer = { status: 200, body: { url: null }, cookies: [endedSessionCookie(publicUrl)] }
  const sessionId = caller?.sessionId
  if (!caller || !sessionId) return ended
  facts.caller = caller
  const signedInBy = await findSignedInBy(db, caller, sessionId)
  await transaction(db, async (tx) => {
    const origin = { accountId: caller.accountId, operationId, caller, ...(sourceIp && { sourceIp }) }
    const gone = await deleteSession(tx, caller, sessionId)
    if (gone)
      await recordChange(
        tx,
        { ...origin, operation: 'dashboard_session.sign_out' },
        { resourceId: sessionId, before: { id: sessionId, expires_at: gone.expires_at }, after: null },
      )
  })
  const provider = providers.find(({ name }) => name === signedInBy?.provider)
  const url = provider && (await endSessionUrl(parts, provider, signedInBy?.id_token ?? null))
  return { ...ended, body: { url: url ?? null } }
}

/** URL of RP-initiated logout, if the provider offers it. An unreachable provider must not prevent signing out here. */
async function endSessionUrl(
  { clients, service, warn }: SignInParts,
  provider: Provider,
  idToken: string | null,
): Promise<string | undefined> {
  try {
    const [openid, { configuration }] = await Promise.all([loadOpenId(), clients.of(provider)])
    if (!configuration.serverMetadata().end_session_endpoint) return undefined
    return openid.buildEndSessionUrl(configuration, {
      post_logout_redirect_uri: `${service.publicUrl}/dashboard/`,
      ...(idToken && { id_token_hint: idToken }),
    }).href
  } catch (error) {
    warn({ provider: provider.name, reason: shortly(error) }, 'cannot sign out at the provider')
    return undefined
  }
}

/** OpenID Connect Back-Channel Logout: the provider reports the end of its session, which ends ours. */
async function endAtProvider(parts: SignInParts, request: PlainRequest): Promise<PlainAnswer> {
  const { service, providers, clients, warn } = parts
  const provider = providers.find(({ name }) => name === request.params.provider)
  const token = (await readForm(request.raw, 16_384)).get('logout_token')
  if (!provider || !token) return { status: 400, body: { error: 'invalid_request' } }
  const { operationId, sourceIp } = request
  try {
    const discovered = await clients.of(provider)
    const { subject, sid, issuer, issuedAt } = await verifyLogoutToken(provider, discovered, token)
    const accountId = await accountOf(parts, provider)
    await transaction(service.db, async (tx) => {
      // Only sessions older than the token, so that a replay cannot end newer ones.
      const ended = await deleteProviderSessions(tx, { accountId }, { issuer, subject, sid, before: issuedAt + 1 })
      const origin = { accountId, operation: 'sign_in.ended_by_provider', operationId, ...(sourceIp && { sourceIp }) }
      for (const { id, owner_id, provider: name } of ended) {
        const before = { provider: name, owner_id: toId('usr', owner_id) }
        await recordChange(tx, origin, { resourceId: toId('ses', id), before, after: null })
      }
    })
    return { status: 200 }
  } catch (error) {
    warn({ operation_id: operationId, provider: provider.name, reason: shortly(error) }, 'refused a logout token')
    return { status: 400, body: { error: 'invalid_request' } }
  }
}
