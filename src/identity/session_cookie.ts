/**
 * The cookie of a dashboard session. Under https its name begins with `__Host-`, which a browser takes only from this
 * very host, with Secure and for the whole of it: neither a page on a neighboring name nor one without TLS can set it.
 */
const nameUnder = (publicUrl: string): string =>
  publicUrl.startsWith('https:') ? '__Host-gatehouse_session' : 'gatehouse_session'

// Strict: it comes with nothing that another site has the browser do, a followed link included.
const attributesUnder = (publicUrl: string): string =>
  `Path=/; HttpOnly; SameSite=Strict${publicUrl.startsWith('https:') ? '; Secure' : ''}`

export const sessionCookie = (publicUrl: string, secret: string, maxAgeSeconds: number): string =>
  `${nameUnder(publicUrl)}=${secret}; Max-Age=${maxAgeSeconds}; ${attributesUnder(publicUrl)}`

export const endedSessionCookie = (publicUrl: string): string =>
  `${nameUnder(publicUrl)}=; Max-Age=0; ${attributesUnder(publicUrl)}`

/** The secret in the request's cookies. Undefined when there is none, and when there are two: one of them is not ours. */
export function sessionSecretIn(publicUrl: string, cookieHeaders: readonly string[] | undefined): string | undefined {
  const wanted = `${nameUnder(publicUrl)}=`
  const found = (cookieHeaders ?? [])
    .flatMap((header) => header.split(';'))
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(wanted))
  return found.length === 1 ? found[0]?.slice(wanted.length) : undefined
}
