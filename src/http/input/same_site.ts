import type { IncomingMessage } from 'node:http'
import { Refusal } from '../../kernel/errors.ts'

/** True if a browser sent the request; only browsers set these headers. */
export const cameFromBrowser = ({ headers }: Pick<IncomingMessage, 'headers'>): boolean =>
  headers['sec-fetch-site'] !== undefined || headers.origin !== undefined

/**
 * Browsers attach cookies to requests of any site, so changes made with a cookie must come from our own pages. Scripts
 * can set neither header. Without TLS, browsers omit Sec-Fetch-Site, and Origin must match instead.
 */
export function refuseOtherSites({ headers }: Pick<IncomingMessage, 'headers'>, publicUrl: string): void {
  const { origin } = new URL(publicUrl)
  const site = headers['sec-fetch-site']
  if (site === undefined ? headers.origin === origin : site === 'same-origin') return
  throw new Refusal(
    'ERR_OTHER_SITE',
    `Requests with a session cookie must come from pages of ${origin}. Open the dashboard there, or send a bearer token.`,
  )
}
