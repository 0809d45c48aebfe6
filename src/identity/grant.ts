import type { Address } from '../kernel/ip/address.ts'
import { checkedCidr } from '../kernel/ip/canonical_cidr.ts'
import { containsCidr, isWithin } from '../kernel/ip/cidr.ts'
import { matches } from '../kernel/scopes.ts'

/** What a key may do, and from where: operations by patterns of their ids, and source ranges. No ranges: from anywhere. */
export type Grant = { readonly scopes: readonly string[]; readonly allowedCidrs: readonly string[] }

/** The scope of a key that may do everything that its owner may. */
export const everything = '*'

/** For keys that a command on the server creates. */
export const ownersRights: Grant = { scopes: [everything], allowedCidrs: [] }

export const mayCall = ({ scopes }: Pick<Grant, 'scopes'>, operation: string): boolean =>
  scopes.some((scope) => matches(scope, operation))

export const isUnlimited = ({ scopes }: Pick<Grant, 'scopes'>): boolean => scopes.includes(everything)

/** An address that could not be read is in no range. */
export const mayCallFrom = ({ allowedCidrs }: Pick<Grant, 'allowedCidrs'>, source: Address | undefined): boolean =>
  allowedCidrs.length === 0 ||
  (source !== undefined && allowedCidrs.some((range) => isWithin(checkedCidr(range), source)))

export type Excess = { readonly field: 'scopes' | 'allowed_cidrs'; readonly index?: number; readonly missing: string }

/**
 * What a wanted grant has beyond another; undefined when it is within it. A pattern is within another that matches its
 * text, because a `*` in the text can only be matched by a `*`: so it stays within it when later versions add operations.
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
