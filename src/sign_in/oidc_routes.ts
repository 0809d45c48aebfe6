import type { PlainAnswer, PlainRequest, PlainRoute } from '../http/plain.ts'
import { sessionSeconds } from '../identity/caller.ts'
import { sessionCookie, signInCookie, signInSecretIn } from '../identity/session_cookie.ts'
import { isWellFormedSessionSecret, newSessionSecret } from '../identity/token.ts'
import { Refusal } from '../kernel/errors.ts'
import { createFailureNotes } from './failures.ts'
import { flowSeconds } from './flow_store.ts'
import { begin, finish } from './oidc.ts'
import type { SignInParts } from './parts.ts'
import { type Provider, SignInFailure } from './provider.ts'
import { returnPath } from './return_path.ts'

const go = (location: string, ...cookies: string[]): PlainAnswer => ({ status: 303, location, cookies })

/** Routes that send browsers to a provider and receive them back. */
export function oidcRoutes(parts: SignInParts): readonly PlainRoute[] {
  const { service, providers } = parts
  const { publicUrl } = service
  const noteFailure = createFailureNotes(parts, service.clock)

  /** Every failure leads to the sign-in page, which explains it. */
  async function explaining(
    request: PlainRequest,
    work: (provider: Provider) => Promise<PlainAnswer>,
  ): Promise<PlainAnswer> {
    const provider = providers.find(({ name }) => name === request.params.provider)
    if (!provider) throw new Refusal('ERR_ROUTE_NOT_FOUND', 'No sign-in provider has this name.')
    try {
      return await work(provider)
    } catch (error) {
      if (!(error instanceof SignInFailure)) throw error
      const limit = service.rateLimits.countFailure(request.source, true)
      const failure = limit?.allowance.allowed === false ? new SignInFailure('too_many_attempts', error.reason) : error
      if (failure === error) await noteFailure(provider, request, failure)
      else service.metrics.countSignIn(provider.name, failure.reason)
      const query = new URLSearchParams({
        sign_in_error: failure.reason,
        provider: provider.name,
        operation: request.operationId,
      })
      return go(`${publicUrl}/dashboard/?${query}`)
    }
  }

  return [
    {
      operation: 'sign_in.start',
      method: 'GET',
      path: '/sign_in/oidc/:provider',
      handle: (request) =>
        explaining(request, async (provider) => {
          // Shared by all tabs of a browser, each of which may be signing in.
          const held = signInSecretIn(publicUrl, request.raw.headersDistinct.cookie)
          const browser = held && isWellFormedSessionSecret(held) ? held : newSessionSecret()
          const location = await begin(parts, provider, {
            browser,
            returnTo: returnPath(request.query.get('return_to')),
          })
          return go(location, signInCookie(publicUrl, browser, flowSeconds))
        }),
    },
    {
      operation: 'sign_in.finish',
      method: 'GET',
      path: '/sign_in/oidc/:provider/callback',
      handle: (request) =>
        explaining(request, async (provider) => {
          const browser = signInSecretIn(publicUrl, request.raw.headersDistinct.cookie)
          const { secret, returnTo } = await finish(parts, provider, request, browser)
          service.metrics.countSignIn(provider.name, 'succeeded')
          return go(publicUrl + returnTo, sessionCookie(publicUrl, secret, sessionSeconds))
        }),
    },
  ]
}
