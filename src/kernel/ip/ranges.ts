import type { Address, IPv6Address } from './address.ts'
import type { Cidr } from './cidr.ts'
import { addressAfter, atOnce, compareWords, inOrder, inSlices, type Steps, stepSize } from './sweep.ts'

export type Action = 'allow' | 'deny'
export type Rule = { readonly cidr: Cidr; readonly action: Action }
/** `expiresAt` in milliseconds; absent: never. */
export type DatedRule = Rule & { readonly expiresAt?: number }
/** `ruleIds`: 16 bytes each, in the order of the rules. */
export type DatedRules = { readonly rules: readonly DatedRule[]; readonly ruleIds: Buffer }
export type Match = { readonly action: Action; readonly rule: number }

/**
 * The address space of one family, divided into ranges: each extends from its start to the next start, and addresses
 * before the first start match no rule. Ends are not stored, so ranges cannot overlap.
 */
export type RangeTable = {
  /** Strictly ascending. One 32-bit word for each IPv4 start, four (most significant first) for each IPv6 start. */
  readonly starts: Uint32Array
  /** Per range: 0 if no rule matches, n if rule n - 1 allows, -n if rule n - 1 denies. */
  readonly verdicts: Int32Array
}

export type CompiledPolicy = { readonly v4: RangeTable; readonly v6: RangeTable }

/**
 * Within a policy, any matching deny beats every allow. The deciding rule is the most specific match of the winning
 * action; the first of equal ranges.
 */
export const compilePolicy = (rules: readonly Rule[]): CompiledPolicy => atOnce(compileInSteps(rules))

/** Like `compilePolicy`, yielding to the event loop: 100,000 rules block a process for a tenth of a second. */
export const compilePolicyInSlices = (rules: readonly Rule[]): Promise<CompiledPolicy> =>
  inSlices(compileInSteps(rules))

function* compileInSteps(rules: readonly Rule[]): Steps<CompiledPolicy> {
  const v4 = yield* compileFamily(rules, 4)
  const v6 = yield* compileFamily(rules, 6)
  return { v4, v6 }
}

/** Undefined when no rule matches. */
export function lookup(policy: CompiledPolicy, address: Address): Match | undefined {
  const verdict = address.family === 4 ? verdictOnIPv4(policy.v4, address.value) : verdictOnIPv6(policy.v6, address)
  if (verdict === 0) return undefined
  return verdict > 0 ? { action: 'allow', rule: verdict - 1 } : { action: 'deny', rule: -verdict - 1 }
}

function verdictOnIPv4({ starts, verdicts }: RangeTable, value: number): number {
  let low = 0
  let high = starts.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((starts[middle] as number) <= value) low = middle + 1
    else high = middle
  }
  return low === 0 ? 0 : (verdicts[low - 1] as number)
}

function verdictOnIPv6({ starts, verdicts }: RangeTable, { w0, w1, w2, w3 }: IPv6Address): number {
  let low = 0
  let high = verdicts.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const at = middle * 4
    const order =
      (starts[at] as number) - w0 ||
      (starts[at + 1] as number) - w1 ||
      (starts[at + 2] as number) - w2 ||
      (starts[at + 3] as number) - w3
    if (order <= 0) low = middle + 1
    else high = middle
  }
  return low === 0 ? 0 : (verdicts[low - 1] as number)
}

/**
 * CIDR ranges are nested or disjoint. So one sweep by first address, wider ranges first, needs only a stack of the open
 * ranges: the verdict changes where a range starts and after it ends.
 */
function* compileFamily(rules: readonly Rule[], family: 4 | 6): Steps<RangeTable> {
  const { width, members, firsts, lasts, order } = yield* inOrder(rules, family)
  const table = new RangeTableBuilder(2 * members.length, width)
  const open: number[] = []
  const verdicts: number[] = [0]
  const closeInnermost = () => {
    const closed = open.pop() as number
    verdicts.pop()
    table.changeAfter(lasts, closed, verdicts.at(-1) as number)
  }
  for (const [index, member] of order.entries()) {
    if (index % stepSize === stepSize - 1) yield
    while (open.length > 0 && compareWords(lasts, open.at(-1) as number, firsts, member, width) < 0) closeInnermost()
    const verdict = winner(rules, verdicts.at(-1) as number, members[member] as number)
    open.push(member)
    verdicts.push(verdict)
    table.changeAt(firsts, member, verdict)
  }
  while (open.length > 0) closeInnermost()
  return table.finish()
}

/**
 * The verdict inside a rule's range. `outer`: verdict of the ranges around it and of earlier rules with the same range.
 */
function winner(rules: readonly Rule[], outer: number, index: number): number {
  const { action, cidr } = ruleAt(rules, index)
  const own = action === 'allow' ? index + 1 : -(index + 1)
  if (outer === 0) return own
  const outerAction: Action = outer > 0 ? 'allow' : 'deny'
  if (action !== outerAction) return action === 'deny' ? own : outer
  // Nested ranges of equal length are identical; the first rule decides.
  const isSameRange = ruleAt(rules, Math.abs(outer) - 1).cidr.prefixLength === cidr.prefixLength
  return isSameRange ? outer : own
}

class RangeTableBuilder {
  readonly #width: number
  readonly #starts: Uint32Array
  readonly #verdicts: Int32Array
  readonly #next: Uint32Array
  #count = 0

  constructor(capacity: number, width: number) {
    this.#width = width
    this.#starts = new Uint32Array(capacity * width)
    this.#verdicts = new Int32Array(capacity)
    this.#next = new Uint32Array(width)
  }

  /** Call it in ascending order. The last call for an address wins. */
  changeAt(words: Uint32Array, index: number, verdict: number): void {
    const width = this.#width
    if (this.#count > 0 && compareWords(this.#starts, this.#count - 1, words, index, width) === 0) this.#count--
    const current = this.#count > 0 ? this.#verdicts[this.#count - 1] : 0
    if (verdict === current) return
    for (let at = 0; at < width; at++) this.#starts[this.#count * width + at] = words[index * width + at] as number
    this.#verdicts[this.#count++] = verdict
  }

  changeAfter(words: Uint32Array, index: number, verdict: number): void {
    if (addressAfter(words, index, this.#next)) this.changeAt(this.#next, 0, verdict)
  }

  finish(): RangeTable {
    return {
      starts: this.#starts.slice(0, this.#count * this.#width),
      verdicts: this.#verdicts.slice(0, this.#count),
    }
  }
}

const ruleAt = (rules: readonly Rule[], index: number): Rule => rules[index] as Rule
