import type { IncomingMessage } from 'node:http'
import { Refusal } from '../../kernel/errors.ts'

/** Whether the browser says where the request comes from; programs do not. */
export const cameFromBrowser = ({ headers }: Pick<IncomingMessage, 'headers'>): boolean =>
  headers['sec-fetch-site'] !== undefined || headers.origin !== undefined

/**
 * Browsers send cookies on their own, so changes made with one must come from our own pages. Scripts cannot set either
 * header. Browsers leave Sec-Fetch-Site out where there is no TLS; then the Origin has to be ours.
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
