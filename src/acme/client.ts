import { createHash } from 'node:crypto'
import type { Exchanged } from './exchange.ts'
import { AcmeProblem, retryAfterMs } from './problems.ts'
import { type AuthorityOptions, base64url, createSignedRequests, parsed } from './signed_requests.ts'

export type AcmeOrder = {
  status: 'pending' | 'ready' | 'processing' | 'valid' | 'invalid'
  authorizations: string[]
  finalize: string
  certificate?: string
  error?: unknown
}
export type AcmeChallenge = { type: string; url: string; token: string; status: string; error?: unknown }
export type AcmeAuthorization = {
  status: 'pending' | 'valid' | 'invalid' | 'deactivated' | 'expired' | 'revoked'
  identifier: { type: 'dns'; value: string }
  wildcard?: boolean
  challenges: AcmeChallenge[]
}
/** A resource of the authority, with its Retry-After. */
export type Polled<Body> = { body: Body; retryAfterMs: number | undefined }

export type AcmeClient = ReturnType<typeof createAcmeClient>

/** The part of ACME (RFC 8555) that an order needs, with a P-256 account key. */
export function createAcmeClient(options: AuthorityOptions) {
  const { directoryUrl, clock } = options
  const { jwk, get, directoryOf, ...signed } = createSignedRequests(options)
  let accountUrl: string | undefined
  const post = (url: string, payload: object | undefined) => signed.post(url, payload, accountUrl)

  const read = async <Body>(url: string): Promise<Polled<Body>> => {
    const { body, headers } = await post(url, undefined)
    return { body: parsed(body) as Body, retryAfterMs: retryAfterMs(headers['retry-after'], clock()) }
  }

  return {
    /** Creates the account, or finds the existing one of this key. */
    async register(contact: string, agreesToTerms: boolean): Promise<void> {
      if (accountUrl) return
      const { newAccount, meta } = await directoryOf()
      if (meta?.termsOfService && !agreesToTerms)
        throw new AcmeProblem(
          'userActionRequired',
          `the operator has not agreed to the terms of the authority (${meta.termsOfService}): GATEHOUSE_ACME_AGREE_TERMS`,
        )
      const payload = { termsOfServiceAgreed: agreesToTerms, ...(contact && { contact: [`mailto:${contact}`] }) }
      accountUrl = locationOf(await signed.post(newAccount, payload, undefined))
    },
    /** `replaces`: the certificate that this one renews, which an authority may exempt from its limits (RFC 9773, 5). */
    async newOrder(names: readonly string[], replaces?: string): Promise<{ url: string }> {
      const { newOrder, renewalInfo } = await directoryOf()
      const identifiers = names.map((value) => ({ type: 'dns', value }))
      const order = (more: object) => post(newOrder, { identifiers, ...more })
      if (!renewalInfo || !replaces) return { url: locationOf(await order({})) }
      return {
        url: locationOf(
          await order({ replaces }).catch((error) => {
            // `replaces` only grants an exemption, so retry without it. Authorities answer with different problems if
            // they do not know the certificate or have already replaced it; a real refusal repeats for the second
            // order.
            const isAnswer = error instanceof AcmeProblem && error.status > 0 && error.type !== 'rateLimited'
            if (!isAnswer) throw error
            return order({})
          }),
        ),
      }
    },
    /** Whether the URL belongs to this authority. */
    isOwn: (url: string): boolean => URL.parse(url)?.host === new URL(directoryUrl).host,
    readOrder: (url: string) => read<AcmeOrder>(url),
    readAuthorization: (url: string) => read<AcmeAuthorization>(url),
    /** Tells the authority that the challenge response is in place. */
    respond: async (challenge: AcmeChallenge): Promise<void> => void (await post(challenge.url, {})),
    finalize: async (order: AcmeOrder, csr: Buffer): Promise<void> =>
      void (await post(order.finalize, { csr: base64url(csr) })),
    certificate: async (url: string): Promise<string> => (await post(url, undefined)).body,
    /** The expected content of the challenge response or the TXT record. */
    keyAuthorization: (token: string): string =>
      `${token}.${createHash('sha256').update(JSON.stringify(jwk)).digest('base64url')}`,
    /** The renewal window that the authority suggests (RFC 9773); undefined if it suggests none. */
    async renewalInfo(certificateId: string) {
      const { renewalInfo } = await directoryOf()
      if (!renewalInfo) return undefined
      const { body, headers } = await get(`${renewalInfo}/${certificateId}`)
      const { start, end } =
        (parsed(body) as { suggestedWindow?: Record<'start' | 'end', string> } | undefined)?.suggestedWindow ?? {}
      const [from, to] = [Date.parse(start ?? ''), Date.parse(end ?? '')]
      if (!(from <= to)) return undefined
      return { from, to, retryAfterMs: retryAfterMs(headers['retry-after'], clock()) }
    },
  }
}

function locationOf({ headers: { location } }: Exchanged): string {
  if (!location) throw new AcmeProblem('malformed', 'the authority did not say where it is')
  return location
}
