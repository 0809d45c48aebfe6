import type { Allowance } from '../kernel/flow/rate_limiter.ts'
import type { Uuid } from '../kernel/ids.ts'

/** What DNS says of a name: the values of its TXT records, or why there are none. */
export type TxtAnswer =
  | { readonly values: readonly string[] }
  | {
      readonly values?: undefined
      /** Shown to the account: it completes the sentence 'The TXT record … '. */
      readonly fault: string
      /** Whether DNS answered at all. Without an answer nothing is known about the record. */
      readonly answered: boolean
    }

/** `auto`: accounts are trusted as long as there is only one. */
export type DomainOwnership = 'auto' | 'trusted' | 'required'

/** What the operator decides about domains, and the way to their DNS. */
export type DomainService = {
  readonly ownership: DomainOwnership
  /** Whether there is an authority to order certificates from. */
  readonly managesCertificates: boolean
  /** How long a domain is held after its record has gone. */
  readonly graceMs: number
  readonly lookUpTxt: (name: string) => Promise<TxtAnswer>
  /** Counts the checks that an account asks for, so that no account can make us flood name servers. */
  readonly countCheck: (accountId: Uuid) => Allowance
}
