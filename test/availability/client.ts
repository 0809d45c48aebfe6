import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { buffer } from 'node:stream/consumers'

// biome-ignore lint/suspicious/noExplicitAny: the rehearsals read the fields that they expect.
export type Answer = { status: number; body: any; generation: number; operation: string; ms: number }
export type Call = (method: string, path: string, body?: object) => Promise<Answer>

const agent = new Agent({ keepAlive: true, maxSockets: 64 })
const plain = new HttpAgent({ keepAlive: true })

export async function get(
  url: string,
  headers: Record<string, string> = {},
  servername?: string,
): Promise<IncomingMessage> {
  return exchange(url, 'GET', headers, undefined, servername)
}

async function exchange(
  url: string,
  method: string,
  headers: Record<string, string>,
  body: string | undefined,
  servername = 'api.example',
): Promise<IncomingMessage> {
  const signal = AbortSignal.timeout(60_000)
  const options = { method, headers, signal }
  const outgoing = url.startsWith('https:')
    ? request(url, { ...options, agent, servername, rejectUnauthorized: false })
    : httpRequest(url, { ...options, agent: plain })
  outgoing.end(body)
  const [response] = await once(outgoing, 'response')
  outgoing.on('error', () => {})
  return response
}

/**
 * As a customer calls. Rejects when there is no answer of the control plane, so that nothing is known: an answer of a proxy
 * counts as none.
 */
export function clientOf(origin: string, token: string): Call {
  return async (method, path, body) => {
    const began = performance.now()
    const headers = {
      authorization: `Bearer ${token}`,
      'service-version': '2',
      'x-request-id': randomUUID(),
      ...(body && { 'content-type': 'application/json' }),
    }
    const response = await exchange(origin + path, method, headers, body && JSON.stringify(body))
    const text = (await buffer(response)).toString()
    const operation = String(response.headers['operation-id'] ?? '')
    if (!operation) throw new Error(`${response.statusCode} without an operation`)
    return {
      status: response.statusCode ?? 0,
      body: text ? JSON.parse(text) : undefined,
      generation: Number(response.headers['service-generation'] ?? 0),
      operation,
      ms: performance.now() - began,
    }
  }
}
