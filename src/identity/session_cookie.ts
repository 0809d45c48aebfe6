/**
 * The cookies of the dashboard. Under https their names begin with `__Host-`, which a browser takes only from this very
 * host, with Secure and for the whole of it: neither a page on a neighboring name nor one without TLS can set them.
 */
const cookies = {
  // Strict: it comes with nothing that another site has the browser do, a followed link included.
  session: { name: 'gatehouse_session', sameSite: 'Strict' },
  // Lax: the provider sends the browser back to us, and that must come with what the browser left with.
  signIn: { name: 'gatehouse_sign_in', sameSite: 'Lax' },
} as const
type Kind = keyof typeof cookies

const isSecure = (publicUrl: string): boolean => publicUrl.startsWith('https:')
const nameUnder = (publicUrl: string, kind: Kind): string =>
  `${isSecure(publicUrl) ? '__Host-' : ''}${cookies[kind].name}`

const cookie = (publicUrl: string, kind: Kind, value: string, maxAgeSeconds: number): string =>
  `${nameUnder(publicUrl, kind)}=${value}; Max-Age=${maxAgeSeconds}; Path=/; HttpOnly; SameSite=${cookies[kind].sameSite}${isSecure(publicUrl) ? '; Secure' : ''}`

export const sessionCookie = (publicUrl: string, secret: string, maxAgeSeconds: number): string =>
  cookie(publicUrl, 'session', secret, maxAgeSeconds)
export const endedSessionCookie = (publicUrl: string): string => cookie(publicUrl, 'session', '', 0)

/** Binds a sign-in that is under way at a provider to the browser that began it. */
export const signInCookie = (publicUrl: string, secret: string, maxAgeSeconds: number): string =>
  cookie(publicUrl, 'signIn', secret, maxAgeSeconds)

/** The secret in the request's cookies. Undefined when there is none, and when there are two: one of them is not ours. */
function secretIn(publicUrl: string, kind: Kind, cookieHeaders: readonly string[] | undefined): string | undefined {
  const wanted = `${nameUnder(publicUrl, kind)}=`
  const found = (cookieHeaders ?? [])
    .flatMap((header) => header.split(';'))
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(wanted))
  return found.length === 1 ? found[0]?.slice(wanted.length) : undefined
}
export const sessionSecretIn = (publicUrl: string, headers: readonly string[] | undefined): string | undefined =>
  secretIn(publicUrl, 'session', headers)
export const signInSecretIn = (publicUrl: string, headers: readonly string[] | undefined): string | undefined =>
  secretIn(publicUrl, 'signIn', headers)
