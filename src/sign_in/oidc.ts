import { admit } from '../access/admission.ts'
import { transaction } from '../db/transaction.ts'
import type { PlainRequest } from '../http/plain.ts'
import type { Origin } from '../identity/origin.ts'
import { newSessionSecret } from '../identity/token.ts'
import { toUuid, type Uuid } from '../kernel/ids.ts'
import { deleteSession } from '../resources/dashboard_session/store.ts'
import { endAccess } from '../resources/identities/rules.ts'
import { findIdentityOf } from '../resources/identities/store.ts'
import { type Admitted, admitPerson } from './admit_person.ts'
import { type Discovered, loadOpenId, shortly } from './clients.ts'
import { type Claims, combineClaims, decide, type Person } from './decision.ts'
import { type Flow, insertFlow, takeFlow } from './flow_store.ts'
import type { SignInParts } from './parts.ts'
import { type Provider, SignInFailure } from './provider.ts'
import { verify } from './tokens.ts'

export const callbackOf = (publicUrl: string, { name }: Provider): string =>
  `${publicUrl}/sign_in/oidc/${name}/callback`

export async function accountOf({ service, findAccount }: SignInParts, provider: Provider): Promise<Uuid> {
  const account = await findAccount(service.db, provider.account)
  if (!account) throw new SignInFailure('account_missing', `there is no account ${JSON.stringify(provider.account)}`)
  return account.id
}

/** Stores a new sign-in flow for this browser. Resolves to the authorization URL at the provider. */
export async function begin(
  parts: SignInParts,
  provider: Provider,
  { browser, returnTo }: { browser: string; returnTo: string },
): Promise<string> {
  const { service, clients } = parts
  const openid = await loadOpenId()
  const { configuration } = await clients.of(provider)
  const [state, nonce, verifier] = [newSessionSecret(), newSessionSecret(), openid.randomPKCECodeVerifier()]
  const accountId = await accountOf(parts, provider)
  const key = { accountId, provider: provider.name, state, browser }
  await insertFlow(service.db, key, { nonce, code_verifier: verifier, return_to: returnTo })
  const url = openid.buildAuthorizationUrl(configuration, {
    redirect_uri: callbackOf(service.publicUrl, provider),
    scope: provider.scopes.join(' '),
    code_challenge: await openid.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    nonce,
  })
  return url.href
}

/** Handles the redirect from the provider. Trusts only our stored flow and what the provider confirms. */
export async function finish(
  parts: SignInParts,
  provider: Provider,
  request: PlainRequest,
  browser: string | undefined,
): Promise<Admitted & { returnTo: string }> {
  const { service, clients } = parts
  const accountId = await accountOf(parts, provider)
  const state = request.query.get('state')
  const flow =
    state && browser ? await takeFlow(service.db, { accountId, provider: provider.name, state, browser }) : undefined
  if (!flow || !state) throw new SignInFailure('not_started_here', 'no sign-in of this browser has this state')
  const discovered = await clients.of(provider)
  const proof = await exchange(parts, provider, discovered, request, flow, state)
  const origin = {
    accountId,
    operationId: request.operationId,
    ...(request.sourceIp && { sourceIp: request.sourceIp }),
  }
  const { issuer } = discovered.configuration.serverMetadata()
  const person = await decideOrEnd(parts, provider, origin, issuer, proof.claims)
  const arrival = { ...proof, provider, issuer, person, origin, source: request.source }
  const { quotas } = service.settings
  const admitted = await admitPerson(service.db, { ...arrival, quotas, uri: (path) => service.publicUrl + path })
  await passRestrictions(parts, request, admitted)
  return { ...admitted, returnTo: flow.return_to }
}

type Proof = { claims: Claims; sid: string | null; idToken: string | null }

/** Redeems the code and verifies the tokens. */
async function exchange(
  { service }: SignInParts,
  provider: Provider,
  discovered: Discovered,
  { query }: PlainRequest,
  flow: Flow,
  state: string,
): Promise<Proof> {
  const openid = await loadOpenId()
  const { configuration } = discovered
  const url = new URL(`${callbackOf(service.publicUrl, provider)}?${query}`)
  try {
    const answer = await openid.authorizationCodeGrant(configuration, url, {
      expectedState: state,
      expectedNonce: flow.nonce,
      pkceCodeVerifier: flow.code_verifier,
      idTokenExpected: true,
    })
    const idToken = answer.id_token ?? ''
    const claims = await verify(provider, discovered, idToken, {
      mayReload: true,
      requiredClaims: ['sub', 'exp', 'iat'],
    })
    const { sub = '', sid } = claims
    const userinfo = configuration.serverMetadata().userinfo_endpoint
      ? await openid.fetchUserInfo(configuration, answer.access_token, sub)
      : {}
    return {
      claims: combineClaims({ ...claims, sub }, userinfo),
      sid: typeof sid === 'string' && Buffer.byteLength(sid) <= 1_024 ? sid : null,
      idToken: Buffer.byteLength(idToken) <= 16_384 ? idToken : null,
    }
  } catch (error) {
    throw failureOf(error)
  }
}

/** The reason why the exchange failed: the provider, its response, or the network. */
function failureOf(error: unknown): SignInFailure {
  const { name = '', code = '', status } = (error ?? {}) as { name?: string; code?: string; status?: number }
  if (name === 'AuthorizationResponseError') return new SignInFailure('refused_by_provider', shortly(error))
  const isDown =
    (error instanceof TypeError && !code.startsWith('OAUTH_')) ||
    ['TimeoutError', 'AbortError'].includes(name) ||
    /TIMEOUT/.test(code) ||
    (status !== undefined && status >= 500)
  return new SignInFailure(isDown ? 'provider_unavailable' : 'invalid_response', shortly(error), { cause: error })
}

/** Ends sessions and keys of a user who is no longer admitted. */
async function decideOrEnd(
  { service }: SignInParts,
  provider: Provider,
  origin: Omit<Origin, 'operation'>,
  issuer: string,
  claims: Claims,
): Promise<Person> {
  try {
    return decide(provider, claims)
  } catch (error) {
    if (error instanceof SignInFailure)
      await transaction(service.db, async (tx) => {
        const identity = await findIdentityOf(tx, origin, issuer, claims.sub)
        if (identity) await endAccess(tx, { ...origin, operation: 'sign_in.end_access' }, identity)
      })
    throw error
  }
}

/** Checks the account's `dashboard` and `api` restrictions, as every request does. */
async function passRestrictions({ service }: SignInParts, request: PlainRequest, admitted: Admitted): Promise<void> {
  const { caller, sessionId } = admitted
  request.facts.caller = caller
  if (!caller.restricted) return
  const call = { caller, source: request.source, operation: 'sign_in.finish', operationId: request.operationId }
  const { refusedBy } = await admit(service, call)
  if (!refusedBy) return
  request.facts.refusedBy = refusedBy
  service.metrics.observeRestriction('refused')
  await deleteSession(service.db, caller, sessionId)
  throw new SignInFailure('address_refused', `session ${toUuid(sessionId)} ended`)
}
