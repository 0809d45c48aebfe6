import { queryOptions } from '@tanstack/react-query'
import { answerOf, api } from './client.ts'
import { forgetChange } from './generation.ts'

/** The token goes to the service once and comes back as a cookie that no script can read. It is kept nowhere here. */
export const signIn = (token: string) => answerOf(api.POST('/dashboard_session', { body: { token } }))

export type SignInOptions = { token: boolean; providers: { name: string; title: string }[] }

/** How one can sign in here. Not an operation of the API: there is no caller yet. */
export const signInOptions = queryOptions({
  queryKey: ['sign-in options'],
  queryFn: async (): Promise<SignInOptions> => {
    const response = await fetch('/sign_in/options')
    // While the service is being upgraded, an older process may answer: it knows tokens only.
    return response.ok ? response.json() : { token: true, providers: [] }
  },
  staleTime: Number.POSITIVE_INFINITY,
})

/** Where a provider's button leads: to the provider, and then back to this page. */
export function startOf(provider: string, { pathname, search }: Pick<Location, 'pathname' | 'search'>): string {
  const kept = new URLSearchParams(search)
  for (const name of ['sign_in_error', 'provider', 'operation']) kept.delete(name)
  const query = new URLSearchParams({ return_to: pathname + (kept.size ? `?${kept}` : '') })
  return `/sign_in/oidc/${encodeURIComponent(provider)}?${query}`
}

/** Ends the session. Resolves to where the browser goes next: to the provider, if its session is to end too. */
export async function signOut(): Promise<string> {
  forgetChange()
  const response = await fetch('/sign_in/sign_out', { method: 'POST' })
  if (response.ok) return ((await response.json()) as { url: string | null }).url ?? '/dashboard/'
  await answerOf(api.DELETE('/dashboard_session'))
  return '/dashboard/'
}
