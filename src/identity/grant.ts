import type { Address } from '../kernel/ip/address.ts'
import { checkedCidr } from '../kernel/ip/canonical_cidr.ts'
import { containsCidr, isWithin } from '../kernel/ip/cidr.ts'
import { matches } from '../kernel/scopes.ts'

/** The rights of a key: patterns of operations, and source ranges. No ranges: from anywhere. */
export type Grant = { readonly scopes: readonly string[]; readonly allowedCidrs: readonly string[] }

/** Scope that grants all rights of the owner. */
export const everything = '*'

/** For keys created by commands on the server. */
export const ownersRights: Grant = { scopes: [everything], allowedCidrs: [] }

export const mayCall = ({ scopes }: Pick<Grant, 'scopes'>, operation: string): boolean =>
  scopes.some((scope) => matches(scope, operation))

export const isUnlimited = ({ scopes }: Pick<Grant, 'scopes'>): boolean => scopes.includes(everything)

/** An address that cannot be parsed is in no range. */
export const mayCallFrom = ({ allowedCidrs }: Pick<Grant, 'allowedCidrs'>, source: Address | undefined): boolean =>
  allowedCidrs.length === 0 ||
  (source !== undefined && allowedCidrs.some((range) => isWithin(checkedCidr(range), source)))

export type Excess = { readonly field: 'scopes' | 'allowed_cidrs'; readonly index?: number; readonly missing: string }

/**
 * The part of a wanted grant that exceeds another; undefined if there is none. A pattern is within another that matches
 * its text, because only `*` matches a `*` in the text. So it stays within it when later versions add operations.
 */
export function excessOf(wanted: Grant, own: Grant): Excess | undefined {
  for (const [index, scope] of wanted.scopes.entries())
    if (!own.scopes.some((pattern) => matches(pattern, scope))) return { field: 'scopes', index, missing: scope }
  if (own.allowedCidrs.length === 0) return undefined
  if (wanted.allowedCidrs.length === 0) return { field: 'allowed_cidrs', missing: 'any address' }
  for (const [index, range] of wanted.allowedCidrs.entries())
    if (!own.allowedCidrs.some((outer) => containsCidr(checkedCidr(outer), checkedCidr(range))))
      return { field: 'allowed_cidrs', index, missing: range }
  return undefined
}
