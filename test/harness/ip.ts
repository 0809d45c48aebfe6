import assert from 'node:assert/strict'
import { request } from 'node:http'
import type { Answer, Client, Options } from './client.ts'

/** For `GATEHOUSE_TRUSTED_PROXIES=127.0.0.1`: the test is then the proxy, and calls come from wherever it says. */
export const behindProxy = { GATEHOUSE_TRUSTED_PROXIES: '127.0.0.1' }
export const from = (ip: string) => ({ headers: { 'x-forwarded-for': ip } })

/** The same client, at a fixed address. */
export const callingFrom =
  (client: Client, ip: string) =>
  (method: string, path: string, body?: unknown, options: Options = {}): Promise<Answer> =>
    client(method, path, body, { ...options, headers: { ...options.headers, 'x-forwarded-for': ip } })

type Call = (method: string, path: string, body?: unknown, options?: Options) => Promise<Answer>

/** Replaces a policy's rules, however many there are, by lines such as 'allow 10.0.0.0/8 # office'. */
export const putRules = (call: Call, policyId: string, lines: readonly string[], options: Options = {}) =>
  call('PUT', `/ip_policies/${policyId}/rules?confirm=true`, undefined, {
    ...options,
    rawBody: lines.join('\n'),
    contentType: 'text/plain',
  })

/** The id of a new policy with these rules. */
export async function policyWith(call: Call, ...lines: string[]): Promise<string> {
  const { body: policy } = await call('POST', '/ip_policies', {})
  if (lines.length) {
    const replaced = await putRules(call, policy.id, lines)
    assert.equal(replaced.status, 200, replaced.text)
  }
  return policy.id
}

// biome-ignore lint/suspicious/noExplicitAny: a restriction as the API shows it; every answer is checked against openapi.json.
export async function restrict(call: Call, fields: object): Promise<any> {
  const created = await call('POST', '/ip_restrictions', { type: 'api', ...fields })
  assert.equal(created.status, 201, created.text)
  return created.body
}

/** GET over a new connection, from a chosen local address and with headers repeated as given. */
export function getFrom(
  where: { host: string; port: number; localAddress?: string },
  path: string,
  token: string,
  headers: readonly (readonly [string, string])[],
): Promise<Pick<Answer, 'status' | 'body'>> {
  const lines = [['Host', 'gatehouse'], ['Service-Version', '2'], ['Authorization', `Bearer ${token}`], ...headers]
  return new Promise((resolve, reject) => {
    const sent = request({ ...where, path, agent: false, headers: lines.flat() }, async (response) => {
      const chunks = await Array.fromAsync(response as AsyncIterable<Buffer>)
      resolve({ status: response.statusCode ?? 0, body: JSON.parse(Buffer.concat(chunks).toString()) })
    })
    sent.on('error', reject).end()
  })
}
