import type { Address } from '../kernel/ip/address.ts'
import { type Decision, decide } from '../kernel/ip/decide.ts'
import type { CompiledPolicy } from '../kernel/ip/ranges.ts'

/** Policies that count together because one restriction or module attaches them. Unenforced, they only warn. */
export type Decider = {
  readonly enforced: boolean
  readonly policies: readonly { readonly ranges: CompiledPolicy }[]
}

/*
 * Whether an address is refused, for everyone who asks: admission to the API, /ip_checks, previews of a change and the
 * check against locking oneself out. They differ only in where their policies come from.
 */

/** What each decider says of the address. One that could not be parsed is undefined, and denied by all. */
export const decideEach = <D extends Decider>(deciders: readonly D[], address: Address | undefined): (D & Decision)[] =>
  deciders.map((decider) => ({
    ...decider,
    ...decide(
      decider.policies.map(({ ranges }) => ranges),
      address,
    ),
  }))

type Decided = { readonly enforced: boolean; readonly allowed: boolean }

/** The address is refused by the first enforced decision that denies it; undefined when it is let through. */
export const refusalIn = <D extends Decided>(decisions: readonly D[]): D | undefined =>
  decisions.find(({ enforced, allowed }) => enforced && !allowed)

/** Only whether, by policies of which each set is enforced: previews ask it of thousands of addresses. */
export const isRefused = (enforced: readonly (readonly CompiledPolicy[])[], address: Address | undefined): boolean =>
  enforced.some((policies) => !decide(policies, address).allowed)

/** The unenforced decisions that deny it. */
export const warningsIn = <D extends Decided>(decisions: readonly D[]): D[] =>
  decisions.filter(({ enforced, allowed }) => !enforced && !allowed)
