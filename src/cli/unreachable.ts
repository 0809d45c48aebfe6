// Explains a missing response: nothing answered, or something other than the service did. Loaded on demand.
import { Failure } from './exits.ts'

type Asked = { readonly url: string; readonly timeoutMs: number }
type Foreign = { readonly status: number; readonly headers: ReadonlyMap<string, string>; readonly text: string }

/** A response from another program on the port, or from a proxy in between. */
export function notGatehouse({ url }: Pick<Asked, 'url'>, answer: Foreign): Failure {
  const { status, headers, text } = answer
  const type = headers.get('content-type')?.split(';')[0] ?? ''
  const isPage = type === 'text/html' || /^\s*<(!doctype|html)/i.test(text)
  const [, title] = (isPage && /<title[^>]*>([^<]{1,80})/i.exec(text)) || []
  const what = isPage ? `an HTML page${title ? ` titled '${title.trim()}'` : ''}` : type || 'no content type'
  const server = headers.get('server')
  return new Failure(
    'unreachable',
    `What answers at ${url} is not Gatehouse: ${status} with ${what}${server ? ` (server: ${server})` : ''}.`,
    [hintFor(url, answer, isPage)],
  )
}

function hintFor(url: string, { status, headers, text }: Foreign, isPage: boolean): string {
  const { pathname, origin } = new URL(url)
  if (status === 400 && /HTTPS (port|server)/i.test(text))
    return `That port expects TLS. Use ${url.replace(/^http:/, 'https:')}.`
  if (status >= 300 && status < 400)
    return `It redirects to ${headers.get('location')}, and the token is not sent there. If that URL is right, configure it instead.`
  if (status >= 500) return 'A proxy answered. The service behind it may be down, or may have taken too long.'
  if (pathname !== '/')
    return `The URL must be that of the API. Try it without ${pathname}: ${origin}. 'gatehouse auth status' shows where it is set.`
  if (isPage)
    return 'A proxy that asks people to sign in answers like this. Let requests to the API through it, or use a URL that does not go through it.'
  return "Check the URL. 'gatehouse auth status' shows where it is set."
}

/** `limit`: what would have ended the request. The error itself may only say that the connection was closed. */
export function unreachable({ url, timeoutMs }: Asked, limit: AbortSignal, cause: unknown): Failure {
  if (limit.aborted)
    return new Failure('unreachable', `${url} did not respond within ${timeoutMs / 1000} s.`, [
      'A change may or may not have been made. Check before you repeat it.',
      'Use --timeout SECONDS to wait longer.',
    ])
  const { code = '', message } = cause as { code?: string; message?: string }
  const isSecure = url.startsWith('https:')
  if (isSecure && code === 'EPROTO' && /wrong version number|packet length too long/i.test(message ?? ''))
    return new Failure(
      'unreachable',
      `${url} cannot be reached: the server does not speak TLS on that port.`,
      [
        `If it serves plain HTTP there, which only a trusted network should carry, use ${url.replace('https:', 'http:')}.`,
      ],
      { cause },
    )
  const cannot = `${url} cannot be reached: ${(message || code).trim()}.`
  if (!isSecure && (/^HPE_/.test(code) || message === 'socket hang up'))
    return new Failure(
      'unreachable',
      cannot,
      [`It did not answer in HTTP. If the port expects TLS, use ${url.replace('http:', 'https:')}.`],
      { cause },
    )
  const hint = /CERT|SIGNATURE|ISSUER|SELF_SIGNED/.test(code)
    ? 'If your own CA signed its certificate, set NODE_EXTRA_CA_CERTS=/path/to/ca.pem.'
    : "Check that it is running and that the URL is right. 'gatehouse auth status' shows where the URL is set."
  return new Failure('unreachable', cannot, [hint], { cause })
}
