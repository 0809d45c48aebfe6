import { parseHostport } from './hostport.ts'

/** Redirects the clients of a route instead of forwarding their requests. */
export type Redirect = {
  to: string
  status_code: (typeof redirectStatuses)[number]
  keep_path: boolean
  keep_query: boolean
}

export const redirectStatuses = [301, 302, 303, 307, 308] as const
export const redirectDefaults = { status_code: 308, keep_path: true, keep_query: true } as const
export const maxRedirectBytes = 2048

/** Other characters could end a field of the proxy's maps, or have a special meaning in browsers. */
const plain = "(?:[A-Za-z0-9\\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*"
const host = '\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._-]+'
const target = new RegExp(`^https?://(?<host>${host})(?<port>:\\d{1,5})?(?:/${plain})?(?<query>\\?${plain})?$`)

/** The invalid field and the reason. */
export function redirectFault({ to, status_code, keep_path, keep_query }: Redirect) {
  if (!redirectStatuses.includes(status_code))
    return { place: 'status_code', fault: `must be one of ${redirectStatuses.join(', ')}` }
  const found = to.length <= maxRedirectBytes ? target.exec(to)?.groups : undefined
  if (!found || typeof parseHostport(`${found.host}${found.port ?? ':443'}`) === 'string')
    return {
      place: 'to',
      fault: `must be an http or https URL of at most ${maxRedirectBytes} bytes, percent-encoded where needed, without a user name and a fragment`,
    }
  if (found.query !== undefined && (keep_path || keep_query))
    return { place: 'to', fault: 'must not have a query unless keep_path and keep_query are false' }
  return undefined
}
