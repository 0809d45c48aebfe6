import type { Allowance } from '../kernel/flow/rate_limiter.ts'
import type { Uuid } from '../kernel/ids.ts'

/** DNS result for a name: the values of its TXT records, or why there are none. */
export type TxtAnswer =
  | { readonly values: readonly string[] }
  | {
      readonly values?: undefined
      /** Shown to the account: it completes the sentence 'The TXT record … '. */
      readonly fault: string
      /** False if DNS did not answer, which proves nothing about the record. */
      readonly answered: boolean
    }

/** `auto`: accounts are trusted while there is only one. */
export type DomainOwnership = 'auto' | 'trusted' | 'required'

/** The operator's settings for domains, and DNS look-ups. */
export type DomainService = {
  readonly ownership: DomainOwnership
  /** Whether an ACME authority is configured. */
  readonly managesCertificates: boolean
  /** How long an account keeps a domain after its record disappears. */
  readonly graceMs: number
  readonly lookUpTxt: (name: string) => Promise<TxtAnswer>
  /** Limits the checks that an account may request, which would otherwise flood name servers. */
  readonly countCheck: (accountId: Uuid) => Allowance
}
