import type { IncomingMessage } from 'node:http'

export type SentRequest = {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
}

/**
 * Sends a request, and resolves when the response begins. Follows no redirect: the token is only for the configured URL.
 *
 * Node's `fetch` would do the same, but loading it takes longer than everything else in a short command. So would
 * `import 'node:http'`: it evaluates all exports of the module, one of which loads `fetch`.
 */
export function send(url: string, { method, headers, body, signal }: SentRequest): Promise<IncomingMessage> {
  const { request } = process.getBuiltinModule(url.startsWith('https:') ? 'node:https' : 'node:http')
  return new Promise((resolve, reject) => {
    request(url, { method, headers, signal }, resolve).on('error', reject).end(body)
  })
}

export const headersOf = ({ headers }: IncomingMessage): ReadonlyMap<string, string> =>
  new Map(Object.entries(headers).map(([name, value]) => [name, String(value)]))

export async function textOf(response: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of response.setEncoding('utf8')) text += part
  return text
}
