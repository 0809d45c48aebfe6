import type { JWTPayload, JWTVerifyOptions } from 'jose'
import { type Discovered, loadJose } from './clients.ts'
import type { Provider } from './provider.ts'

// Only with a public key: with a shared secret, a thief of our client secret could sign in anybody.
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']

/**
 * Verifies a token's signature with the provider's published keys, its issuer, audience and times. The code flow would
 * let us trust an ID token for having come over TLS; the signature holds even with proxies between us and the provider.
 */
export async function verify(
  provider: Provider,
  { keys, configuration }: Discovered,
  token: string,
  more: Pick<JWTVerifyOptions, 'typ' | 'maxTokenAge' | 'requiredClaims'> & { mayReload: boolean },
): Promise<JWTPayload> {
  const { jwtVerify, errors } = await loadJose()
  const { mayReload, ...options } = more
  const check = () =>
    jwtVerify(token, keys, {
      ...options,
      issuer: configuration.serverMetadata().issuer,
      audience: provider.clientId,
      algorithms,
      clockTolerance: provider.clockToleranceSeconds,
    })
  try {
    return (await check()).payload
  } catch (error) {
    if (!mayReload || !(error instanceof errors.JWKSNoMatchingKey)) throw error
    // The provider may have changed its keys a moment ago.
    await keys.reload()
    return (await check()).payload
  }
}

const logoutEvent = 'http://schemas.openid.net/event/backchannel-logout'

/** As OpenID Connect Back-Channel Logout 1.0 has it, section 2.6. */
export async function verifyLogoutToken(provider: Provider, discovered: Discovered, token: string) {
  const claims = await verify(provider, discovered, token, {
    maxTokenAge: '5 min',
    requiredClaims: ['iat', 'jti', 'events'],
    // Anybody can send one: it must not make us fetch keys as often as they like.
    mayReload: false,
  })
  const events = claims.events as Record<string, unknown> | undefined
  if (typeof events?.[logoutEvent] !== 'object') throw new Error('it is not a logout token')
  if (claims.nonce !== undefined) throw new Error('a logout token has no nonce')
  const sid = typeof claims.sid === 'string' ? claims.sid : undefined
  if (claims.sub === undefined && sid === undefined) throw new Error('a logout token names a subject or a session')
  return { subject: claims.sub, sid, issuedAt: claims.iat ?? 0, issuer: claims.iss ?? '' }
}
