import type { Address } from './address.ts'
import { type CompiledPolicy, lookup } from './ranges.ts'

/** Limit per restriction or module. */
export const maxAttachedPolicies = 100

/** `policy` and `rule` are indexes; both are absent if no rule matched or the address is undefined. */
export type Decision = { readonly allowed: boolean; readonly policy?: number; readonly rule?: number }

/**
 * Treats all policies as one set of rules: a deny in any policy beats every allow, and an address that nothing allows
 * is denied. An undefined address, which could not be parsed, is denied too.
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
