import { queryOptions } from '@tanstack/react-query'
import { answerOf, api } from './client.ts'
import { forgetChange } from './generation.ts'

/**
 * Sends the token once; the response sets a cookie that scripts cannot read. The dashboard does not store the token.
 */
export const signIn = (token: string) => answerOf(api.POST('/dashboard_session', { body: { token } }))

export type SignInOptions = { token: boolean; providers: { name: string; title: string }[] }

/** The available ways to sign in. Not an API operation, because there is no caller yet. */
export const signInOptions = queryOptions({
  queryKey: ['sign-in options'],
  queryFn: async (): Promise<SignInOptions> => {
    const response = await fetch('/sign_in/options')
    // During an upgrade an older process may answer, which supports only tokens.
    return response.ok ? response.json() : { token: true, providers: [] }
  },
  staleTime: Number.POSITIVE_INFINITY,
})

/** URL of a provider's button: leads to the provider and back to this page. */
export function startOf(provider: string, { pathname, search }: Pick<Location, 'pathname' | 'search'>): string {
  const kept = new URLSearchParams(search)
  for (const name of ['sign_in_error', 'provider', 'operation']) kept.delete(name)
  const query = new URLSearchParams({ return_to: pathname + (kept.size ? `?${kept}` : '') })
  return `/sign_in/oidc/${encodeURIComponent(provider)}?${query}`
}

/** Ends the session. Resolves to the next URL, which is at the provider if its session ends too. */
export async function signOut(): Promise<string> {
  forgetChange()
  const response = await fetch('/sign_in/sign_out', { method: 'POST' })
  if (response.ok) return ((await response.json()) as { url: string | null }).url ?? '/dashboard/'
  await answerOf(api.DELETE('/dashboard_session'))
  return '/dashboard/'
}
