import assert from 'node:assert/strict'
import type { Answer, Client, Options } from './client.ts'

export type Browser = ((method: string, path: string, body?: unknown, options?: Options) => Promise<Answer>) & {
  readonly sessionId: string
  readonly secret: string
}

const cookieName = '__Host-gatehouse_session'

/** Signs in with the client's token, and resolves to what a page of the dashboard would call with: the cookie, no token. */
export async function signIn(client: Client, options: Options = {}): Promise<Browser> {
  const withoutToken = { ...options, headers: { authorization: undefined, ...options.headers } }
  const signedIn = await client('POST', '/dashboard_session', { token: client.token }, withoutToken)
  assert.equal(signedIn.status, 201, signedIn.text)
  const secret = new RegExp(`^${cookieName}=([^;]+)`).exec(signedIn.headers.getSetCookie()[0] ?? '')?.[1] ?? ''
  const call = (method: string, path: string, body?: unknown, more: Options = {}) =>
    client(method, path, body, {
      ...options,
      ...more,
      headers: {
        authorization: undefined,
        cookie: `${cookieName}=${secret}`,
        'sec-fetch-site': 'same-origin',
        ...options.headers,
        ...more.headers,
      },
    })
  return Object.assign(call, { sessionId: signedIn.body.id, secret })
}
