import type { JWTVerifyGetKey } from 'jose'
import type { Configuration } from 'openid-client'
import type { Clock } from '../kernel/clock.ts'
import { isThisMachine, type Provider, SignInFailure } from './provider.ts'

/** Discovered configuration of a provider. */
export type Discovered = {
  readonly configuration: Configuration
  readonly keys: JWTVerifyGetKey & { readonly reload: () => Promise<void> }
}
export type Clients = {
  /** Rejects with `provider_unavailable` if the provider does not answer. */
  readonly of: (provider: Provider) => Promise<Discovered>
}

const keepMs = 60 * 60 * 1_000
/** Minimum pause after a failure; otherwise every sign-in would wait for the time-out while a provider is down. */
const retryMs = 5_000
export const timeoutSeconds = 5

// Imported with the first sign-in, because most installations never need them.
export const loadOpenId = () => import('openid-client')
export const loadJose = () => import('jose')

type Kept = { until: number; found: Promise<Discovered>; last?: Discovered }

/** Discovers each provider on first use, so `serve` starts while a provider is down. */
export function createClients(clock: Clock): Clients {
  const kept = new Map<string, Kept>()
  return {
    async of(provider) {
      const known = kept.get(provider.name)
      if (known && clock() < known.until) return known.found
      const last = known?.last
      // Falls back to the previous configuration, because the outage may be short.
      const found = discover(provider).catch((cause) => {
        entry.until = clock() + retryMs
        if (last) return last
        throw unavailable(cause)
      })
      const entry: Kept = { until: clock() + keepMs, found, ...(last && { last }) }
      kept.set(provider.name, entry)
      entry.last = await found
      return entry.last
    },
  }
}

async function discover(provider: Provider): Promise<Discovered> {
  const [openid, { createRemoteJWKSet }] = await Promise.all([loadOpenId(), loadJose()])
  const issuer = new URL(provider.issuer)
  const isLocal = issuer.protocol === 'http:' && isThisMachine(issuer)
  const configuration = await openid.discovery(
    issuer,
    provider.clientId,
    { [openid.clockTolerance]: provider.clockToleranceSeconds },
    provider.clientSecret === undefined ? openid.None() : openid.ClientSecretBasic(provider.clientSecret),
    { timeout: timeoutSeconds, ...(isLocal && { execute: [openid.allowInsecureRequests] }) },
  )
  const { jwks_uri } = configuration.serverMetadata()
  if (!jwks_uri) throw new Error('the provider names no jwks_uri')
  const keys = createRemoteJWKSet(new URL(jwks_uri), { timeoutDuration: timeoutSeconds * 1_000 })
  return { configuration, keys }
}

const unavailable = (cause: unknown): SignInFailure =>
  new SignInFailure('provider_unavailable', `discovery failed: ${shortly(cause)}`, { cause })

type LibraryError = { message?: string; code?: string; error?: string; cause?: LibraryError }

/** Summary of a library error. Uses only its fixed texts: other fields may contain tokens. */
export function shortly(error: unknown): string {
  const { message = 'unknown', code = '', error: said, cause } = (error ?? {}) as LibraryError
  // openid-client wraps errors of its own library; only the inner one names the claim.
  const inner = code.startsWith('OAUTH_') && typeof cause?.message === 'string' ? `: ${cause.message}` : ''
  const ofProvider = typeof said === 'string' && /^[a-z_]{1,40}$/.test(said) ? `: ${said}` : ''
  return `${message}${inner}${ofProvider}`.replaceAll(/\s+/g, ' ').slice(0, 200)
}
