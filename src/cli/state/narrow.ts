import { type Cidr, maskOfWord, parseCidr } from '../../kernel/ip/cidr.ts'
import type { Rule } from './kinds.ts'

/** The canonical name of a range cut to a length, for comparing a range with all ranges that contain it. */
function keyOf({ network }: Cidr, length: number): string {
  const words = network.family === 4 ? [network.value] : [network.w0, network.w1, network.w2, network.w3]
  return `${network.family}/${length}/${words.map((word, index) => (word & maskOfWord(length, index)) >>> 0).join('.')}`
}

const endOf = ({ expires_at }: Rule): number => (expires_at ? Date.parse(expires_at) : Number.POSITIVE_INFINITY)

/** True if these rules cover everything that the rule matches, for as long as it is valid. */
function coveredBy(rules: readonly Rule[]): (rule: Rule) => boolean {
  const ends = new Map<string, number>()
  for (const rule of rules) {
    const { cidr } = parseCidr(rule.cidr)
    if (!cidr) continue
    const key = keyOf(cidr, cidr.prefixLength)
    ends.set(key, Math.max(ends.get(key) ?? 0, endOf(rule)))
  }
  return (rule) => {
    const { cidr } = parseCidr(rule.cidr)
    if (!cidr) return false
    for (let length = cidr.prefixLength; length >= 0; length--)
      if ((ends.get(keyOf(cidr, length)) ?? 0) >= endOf(rule)) return true
    return false
  }
}

/**
 * Rules that allow exactly the addresses that both allow. Two ranges that meet are nested, so those allow
 * rules are enough that the other set covers; and what either denies is denied. A range has one rule: a deny, else the
 * one of the wanted.
 */
export function narrowed(present: readonly Rule[], wanted: readonly Rule[]): Rule[] {
  const of = (rules: readonly Rule[], action: string) => rules.filter((rule) => rule.action === action)
  const [before, after] = [of(present, 'allow'), of(wanted, 'allow')]
  const chosen = new Map<string, Rule>()
  const choose = (rules: readonly Rule[], isBetter: (rule: Rule, than: Rule) => boolean) => {
    for (const rule of rules) {
      const other = chosen.get(rule.cidr)
      if (!other || (other.action === rule.action && isBetter(rule, other))) chosen.set(rule.cidr, rule)
    }
  }
  choose([...of(wanted, 'deny'), ...of(present, 'deny')], (rule, than) => endOf(rule) > endOf(than))
  choose(
    [...after.filter(coveredBy(before)), ...before.filter(coveredBy(after))],
    (rule, than) => endOf(rule) < endOf(than),
  )
  return [...chosen.values()]
}
