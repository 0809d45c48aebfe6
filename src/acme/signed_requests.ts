import { type KeyObject, sign } from 'node:crypto'
import type { Clock } from '../kernel/clock.ts'
import { type Exchanged, exchange } from './exchange.ts'
import { AcmeProblem, problemOf, retryAfterMs } from './problems.ts'

type Directory = {
  newNonce: string
  newAccount: string
  newOrder: string
  renewalInfo?: string
  meta?: { termsOfService?: string }
}

export type AuthorityOptions = {
  directoryUrl: string
  /** PEM roots to trust instead of Node's. Undefined: Node's. */
  ca: string | undefined
  accountKey: KeyObject
  clock: Clock
  signal: AbortSignal
}

/** An authority may reject a nonce that it issued; it then sends a new one. */
const maxNonces = 12
export const base64url = (data: string | Buffer) => Buffer.from(data).toString('base64url')

/** Signs each request to an authority with the account key and a nonce (RFC 8555, 6). */
export function createSignedRequests({ directoryUrl, ca, accountKey, clock, signal }: AuthorityOptions) {
  const { crv, kty, x, y } = accountKey.export({ format: 'jwk' })
  const jwk = { crv, kty, x, y }
  let directory: Directory | undefined
  let nonce: string | undefined

  function problemIn({ status, headers, body }: Exchanged): AcmeProblem {
    return problemOf(parsed(body), status, retryAfterMs(headers['retry-after'], clock()))
  }

  async function get(url: string): Promise<Exchanged> {
    const answer = await exchange(url, { method: 'GET', ca, signal })
    if (answer.status !== 200) throw problemIn(answer)
    return answer
  }

  async function directoryOf(): Promise<Directory> {
    directory ??= parsed((await get(directoryUrl)).body) as Directory
    if (typeof directory?.newOrder !== 'string')
      throw new AcmeProblem('malformed', `${directoryUrl} is not the directory of an ACME authority`)
    return directory
  }

  async function nextNonce(): Promise<string> {
    const kept = nonce
    nonce = undefined
    if (kept) return kept
    const { headers } = await exchange((await directoryOf()).newNonce, { method: 'HEAD', ca, signal })
    const fresh = headers['replay-nonce']
    if (typeof fresh !== 'string') throw new AcmeProblem('malformed', 'the authority gave no nonce')
    return fresh
  }

  /** An undefined payload makes it a POST-as-GET. Without an account URL, the key itself identifies the sender. */
  async function post(url: string, payload: object | undefined, accountUrl: string | undefined) {
    for (let attempt = 1; ; attempt++) {
      const header = {
        alg: 'ES256',
        nonce: await nextNonce(),
        url,
        ...(accountUrl ? { kid: accountUrl } : { jwk }),
      }
      const [head, body] = [base64url(JSON.stringify(header)), payload ? base64url(JSON.stringify(payload)) : '']
      const signature = sign('sha256', Buffer.from(`${head}.${body}`), { key: accountKey, dsaEncoding: 'ieee-p1363' })
      const answer = await exchange(url, {
        method: 'POST',
        ca,
        signal,
        contentType: 'application/jose+json',
        body: JSON.stringify({ protected: head, payload: body, signature: base64url(signature) }),
      })
      const fresh = answer.headers['replay-nonce']
      if (typeof fresh === 'string') nonce = fresh
      if (answer.status < 300) return answer
      const problem = problemIn(answer)
      if (problem.type !== 'badNonce' || attempt >= maxNonces) throw problem
    }
  }

  return { jwk, get, post, directoryOf }
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
