import type { JWTPayload, JWTVerifyOptions } from 'jose'
import { type Discovered, loadJose } from './clients.ts'
import type { Provider } from './provider.ts'

// Public-key algorithms only: with a shared secret, anyone who steals our client secret could sign in anybody.
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']

/**
 * Verifies signature, issuer, audience and times of a token. In the code flow, TLS alone would suffice for the ID
 * token, but the signature also protects against proxies between us and the provider.
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
    // The provider may have just rotated its keys.
    await keys.reload()
    return (await check()).payload
  }
}

const logoutEvent = 'http://schemas.openid.net/event/backchannel-logout'

/** OpenID Connect Back-Channel Logout 1.0, section 2.6. */
export async function verifyLogoutToken(provider: Provider, discovered: Discovered, token: string) {
  const claims = await verify(provider, discovered, token, {
    maxTokenAge: '5 min',
    requiredClaims: ['iat', 'jti', 'events'],
    // Anybody can send one, which must not make us fetch keys at will.
    mayReload: false,
  })
  const events = claims.events as Record<string, unknown> | undefined
  if (typeof events?.[logoutEvent] !== 'object') throw new Error('it is not a logout token')
  if (claims.nonce !== undefined) throw new Error('a logout token has no nonce')
  const sid = typeof claims.sid === 'string' ? claims.sid : undefined
  if (claims.sub === undefined && sid === undefined) throw new Error('a logout token names a subject or a session')
  return { subject: claims.sub, sid, issuedAt: claims.iat ?? 0, issuer: claims.iss ?? '' }
}
