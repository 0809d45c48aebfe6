import type { Address } from '../kernel/ip/address.ts'
import { type Decision, decide } from '../kernel/ip/decide.ts'
import type { CompiledPolicy } from '../kernel/ip/ranges.ts'

/** Policies that one restriction or module attaches. Unenforced, they only warn. */
export type Decider = {
  readonly enforced: boolean
  readonly policies: readonly { readonly ranges: CompiledPolicy }[]
}

/* The one place that decides whether an address is refused: for calls of the API, /ip_checks, previews and the
   lockout check. These differ only in where their policies come from. */

/** One decision per decider. An undefined address could not be parsed; every decider denies it. */
export const decideEach = <D extends Decider>(deciders: readonly D[], address: Address | undefined): (D & Decision)[] =>
  deciders.map((decider) => ({
    ...decider,
    ...decide(
      decider.policies.map(({ ranges }) => ranges),
      address,
    ),
  }))

type Decided = { readonly enforced: boolean; readonly allowed: boolean }

/** The first enforced decision that denies the address; undefined if it is let through. */
export const refusalIn = <D extends Decided>(decisions: readonly D[]): D | undefined =>
  decisions.find(({ enforced, allowed }) => enforced && !allowed)

/** Yes or no only, without the deciding rule: previews check thousands of addresses. */
export const isRefused = (enforced: readonly (readonly CompiledPolicy[])[], address: Address | undefined): boolean =>
  enforced.some((policies) => !decide(policies, address).allowed)

/** The unenforced decisions that deny it. */
export const warningsIn = <D extends Decided>(decisions: readonly D[]): D[] =>
  decisions.filter(({ enforced, allowed }) => !enforced && !allowed)
