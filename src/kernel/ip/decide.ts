import type { Address } from './address.ts'
import { type CompiledPolicy, lookup } from './ranges.ts'

/** What one restriction or module may attach. */
export const maxAttachedPolicies = 100

/** `policy` and `rule` are indexes; both are absent when no rule matched or there was no address to match. */
export type Decision = { readonly allowed: boolean; readonly policy?: number; readonly rule?: number }

/**
 * All policies count as one set of rules: any deny, in whichever policy, wins over every allow, and what nothing
 * allows is denied. So is an address that could not be parsed, which the caller passes as undefined.
 */
export function decide(policies: readonly CompiledPolicy[], address: Address | undefined): Decision {
  if (address === undefined) return { allowed: false }
  let allowedBy: Decision | undefined
  for (let policy = 0; policy < policies.length; policy++) {
    const match = lookup(policies[policy] as CompiledPolicy, address)
    if (match?.action === 'deny') return { allowed: false, policy, rule: match.rule }
    if (match) allowedBy ??= { allowed: true, policy, rule: match.rule }
  }
  return allowedBy ?? { allowed: false }
}
