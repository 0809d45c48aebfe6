import { giveWay } from '../give_way.ts'
import type { Address, IPv6Address } from './address.ts'
import { type Cidr, maskOfWord } from './cidr.ts'

export type Action = 'allow' | 'deny'
export type Rule = { readonly cidr: Cidr; readonly action: Action }
export type Match = { readonly action: Action; readonly rule: number }

/**
 * All addresses of one family, cut into ranges: each reaches from its start to just before the next one's, and the
 * addresses before the first start match no rule. Ends are not kept, so that ranges cannot overlap in any table.
 */
export type RangeTable = {
  /** Strictly ascending. One 32-bit word for each IPv4 start, four (most significant first) for each IPv6 start. */
  readonly starts: Uint32Array
  /** For each range: 0 where no rule matches, n where rule n - 1 allows, -n where rule n - 1 denies. */
  readonly verdicts: Int32Array
}

export type CompiledPolicy = { readonly v4: RangeTable; readonly v6: RangeTable }

/**
 * Within a policy any matching deny wins over any allow. The rule named is the most specific match of the winning
 * action; of rules with the same range, the first.
 */
export function compilePolicy(rules: readonly Rule[]): CompiledPolicy {
  const steps = compileInSteps(rules)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/** The same, giving way to others now and then: 100,000 rules in one go keep a process busy for a tenth of a second. */
export async function compilePolicyInSlices(rules: readonly Rule[]): Promise<CompiledPolicy> {
  const steps = compileInSteps(rules)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
    await giveWay()
  }
}

/** How much is done between two steps: some milliseconds. */
const stepSize = 4_096
type Steps<Result> = Generator<void, Result, void>

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
 * Two CIDR ranges are nested or disjoint. So one sweep in order of first address, wider before narrower, needs only a
 * stack of the ranges it is inside of: the verdict changes where a range starts, and just after one ends.
 */
function* compileFamily(rules: readonly Rule[], family: 4 | 6): Steps<RangeTable> {
  const width = family === 4 ? 1 : 4
  const members = Uint32Array.from(rules.keys().filter((index) => rules[index]?.cidr.network.family === family))
  const firsts = new Uint32Array(members.length * width)
  const lasts = new Uint32Array(members.length * width)
  const prefixLengths = new Uint8Array(members.length)
  yield
  for (let member = 0; member < members.length; member++) {
    if (member % stepSize === stepSize - 1) yield
    const { network, prefixLength } = ruleAt(rules, members[member] as number).cidr
    prefixLengths[member] = prefixLength
    for (let index = 0; index < width; index++) {
      const first = wordOf(network, index)
      firsts[member * width + index] = first
      lasts[member * width + index] = first | ~maskOfWord(prefixLength, index)
    }
  }

  const compare = (a: number, b: number) =>
    compareWords(firsts, a, firsts, b, width) || (prefixLengths[a] as number) - (prefixLengths[b] as number) || a - b
  yield
  const order = yield* sorted(members.length, compare)
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

/** The numbers below `count` in order: runs that are sorted at once, and then merged, two and two. */
function* sorted(count: number, compare: (a: number, b: number) => number): Steps<Uint32Array> {
  let order = Uint32Array.from({ length: count }, (_, index) => index)
  // Sorting is most of the work, and the database gives them in this order.
  if (order.every((member) => member === 0 || compare(member - 1, member) < 0)) return order
  for (let start = 0; start < count; start += stepSize) {
    order.subarray(start, start + stepSize).sort(compare)
    yield
  }
  let merged = new Uint32Array(count)
  for (let run = stepSize; run < count; run *= 2) {
    for (let start = 0; start < count; start += 2 * run) {
      const [middle, end] = [Math.min(start + run, count), Math.min(start + 2 * run, count)]
      for (let left = start, right = middle, at = start; at < end; at++) {
        if (at % stepSize === stepSize - 1) yield
        const takesLeft = right >= end || (left < middle && compare(order[left] as number, order[right] as number) <= 0)
        merged[at] = order[takesLeft ? left++ : right++] as number
      }
    }
    ;[order, merged] = [merged, order]
  }
  return order
}

/** The verdict inside a rule's range; `outer` is that of the ranges around it and of earlier rules with the same range. */
function winner(rules: readonly Rule[], outer: number, index: number): number {
  const { action, cidr } = ruleAt(rules, index)
  const own = action === 'allow' ? index + 1 : -(index + 1)
  if (outer === 0) return own
  const outerAction: Action = outer > 0 ? 'allow' : 'deny'
  if (action !== outerAction) return action === 'deny' ? own : outer
  // Ranges that are nested and equally long are the same, and the first rule keeps it.
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

  /** Calls come in ascending order; of several for one address the last one counts. */
  changeAt(words: Uint32Array, index: number, verdict: number): void {
    const width = this.#width
    if (this.#count > 0 && compareWords(this.#starts, this.#count - 1, words, index, width) === 0) this.#count--
    const current = this.#count > 0 ? this.#verdicts[this.#count - 1] : 0
    if (verdict === current) return
    for (let at = 0; at < width; at++) this.#starts[this.#count * width + at] = words[index * width + at] as number
    this.#verdicts[this.#count++] = verdict
  }

  changeAfter(words: Uint32Array, index: number, verdict: number): void {
    const next = this.#next
    let at = this.#width - 1
    for (let i = 0; i <= at; i++) next[i] = words[index * this.#width + i] as number
    while (at >= 0 && next[at] === 0xffffffff) next[at--] = 0
    // Nothing comes after the family's last address.
    if (at < 0) return
    next[at] = (next[at] as number) + 1
    this.changeAt(next, 0, verdict)
  }

  finish(): RangeTable {
    return {
      starts: this.#starts.slice(0, this.#count * this.#width),
      verdicts: this.#verdicts.slice(0, this.#count),
    }
  }
}

function compareWords(a: Uint32Array, aIndex: number, b: Uint32Array, bIndex: number, width: number): number {
  for (let at = 0; at < width; at++) {
    const difference = (a[aIndex * width + at] as number) - (b[bIndex * width + at] as number)
    if (difference !== 0) return difference
  }
  return 0
}

function wordOf(address: Address, index: number): number {
  if (address.family === 4) return address.value
  return [address.w0, address.w1, address.w2, address.w3][index] as number
}

const ruleAt = (rules: readonly Rule[], index: number): Rule => rules[index] as Rule
