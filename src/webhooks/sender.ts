import { Resolver } from 'node:dns/promises'
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { LookupFunction } from 'node:net'
import type { DialPolicy } from '../kernel/ip/dial_policy.ts'
import { addressOf, portOf, urlFault } from './url.ts'

/** Outcome of one attempt. `status` without `error`: delivered. */
export type Outcome = { status: number | null; error: string | null; retryAfterMs: number }
export type Send = (url: string, headers: Record<string, string>, body: string, signal: AbortSignal) => Promise<Outcome>

export const attemptTimeoutMs = 10_000
/** Responses are not stored, and nothing beyond this size is read. */
const maxResponseBytes = 16 * 1024
const maxRetryAfterMs = 24 * 60 * 60 * 1_000

class Denied extends Error {
  override readonly name = 'Denied'
}

/**
 * Sends to URLs chosen by tenants. Resolves the name, checks the addresses and connects to one that passed, so that the
 * name cannot resolve differently in between. Does not use the thread pool for DNS, because tenants' name servers may
 * be slow.
 */
export function createSender(
  policy: DialPolicy,
  resolver = new Resolver({ timeout: 2_000, tries: 2 }),
): { send: Send; close: () => void } {
  const lookupFor =
    (port: number): LookupFunction =>
    (hostname, options, done) => {
      resolve(resolver, hostname)
        .then((found) => {
          const allowed = found.filter(({ address }) => policy.fault(address, port) === undefined)
          const [first] = allowed
          if (!first) {
            const [denied] = found
            const fault = denied && policy.fault(denied.address, port)
            throw new Denied(fault ? `the name leads to an address that ${fault}` : 'the name has no address')
          }
          if (options.all) done(null, allowed)
          else done(null, first.address, first.family)
        })
        .catch((error: NodeJS.ErrnoException) => done(error, '', 4))
    }
  const connections = { keepAlive: true, timeout: attemptTimeoutMs, maxFreeSockets: 64, scheduling: 'lifo' } as const
  const [http, https] = [new HttpAgent(connections), new HttpsAgent(connections)]

  async function send(text: string, headers: Record<string, string>, body: string, signal: AbortSignal) {
    const url = new URL(text)
    // Checked again, because the operator's settings may have changed since the destination was created.
    const fault = urlFault(text, policy)
    if (fault) return failed(`the url ${fault}`)
    const port = portOf(url)
    const timeout = AbortSignal.timeout(attemptTimeoutMs)
    const options: RequestOptions = {
      method: 'POST',
      host: addressOf(url) ?? url.hostname,
      port,
      path: url.pathname + url.search,
      headers: { ...headers, host: url.host, 'content-length': Buffer.byteLength(body) },
      lookup: lookupFor(port),
      signal: AbortSignal.any([signal, timeout]),
    }
    const isTls = url.protocol === 'https:'
    try {
      return await exchange(
        isTls
          ? httpsRequest({ ...options, agent: https, servername: addressOf(url) ? '' : url.hostname })
          : httpRequest({ ...options, agent: http }),
        body,
      )
    } catch (error) {
      return failed(timeout.aborted ? `no response within ${attemptTimeoutMs / 1_000} s` : reasonOf(error))
    }
  }
  return {
    send,
    close() {
      http.destroy()
      https.destroy()
    },
  }
}

const failed = (error: string): Outcome => ({ status: null, error: error.slice(0, 300), retryAfterMs: 0 })

function exchange(request: ReturnType<typeof httpRequest>, body: string): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    request.on('error', reject)
    request.once('response', (response: IncomingMessage) => {
      let bytes = 0
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > maxResponseBytes) response.destroy()
      })
      response.once('error', () => {})
      // The status decides. An endless body costs the connection at the time-out, not the outcome.
      resolve(outcomeOf(response))
    })
    request.end(body)
  })
}

function outcomeOf({ statusCode: status = 0, headers }: IncomingMessage): Outcome {
  if (status >= 200 && status < 300) return { status, error: null, retryAfterMs: 0 }
  const error = status >= 300 && status < 400 ? 'the receiver redirects, which is not followed' : `status ${status}`
  return { status, error, retryAfterMs: retryAfterOf(headers['retry-after']) }
}

function retryAfterOf(text = ''): number {
  const ms = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - Date.now()
  return ms > 0 ? Math.min(ms, maxRetryAfterMs) : 0
}

async function resolve(resolver: Resolver, name: string): Promise<{ address: string; family: 4 | 6 }[]> {
  if (name === 'localhost' || name.endsWith('.localhost')) return [{ address: '127.0.0.1', family: 4 }]
  const [four, six] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
  return [
    ...(four.status === 'fulfilled' ? four.value : []).map((address) => ({ address, family: 4 as const })),
    ...(six.status === 'fulfilled' ? six.value : []).map((address) => ({ address, family: 6 as const })),
  ]
}

/** Shown to the tenant, so it names no address that the tenant did not enter. */
function reasonOf(error: unknown): string {
  if (error instanceof Denied) return error.message
  const { code = '', message } = error as NodeJS.ErrnoException
  const known: Record<string, string> = {
    ECONNREFUSED: 'the connection was refused',
    ECONNRESET: 'the connection was reset',
    EPIPE: 'the connection was reset',
    EHOSTUNREACH: 'the address cannot be reached',
    ENETUNREACH: 'the address cannot be reached',
    ETIMEDOUT: 'the connection timed out',
    ABORT_ERR: 'the attempt was ended by a shutdown',
  }
  if (known[code]) return known[code]
  if (/CERT|SIGNATURE|SELF_SIGNED|ISSUER|ERR_TLS/.test(code)) return `the certificate is not accepted: ${code}`
  if (/SSL|EPROTO/.test(code)) return 'TLS failed'
  if (code.startsWith('HPE_')) return 'the response is not valid HTTP'
  return message === 'socket hang up' ? 'the connection was closed without a response' : `the attempt failed: ${code}`
}
