import { yieldToEventLoop } from '../flow/yield_to_event_loop.ts'
import type { Address } from './address.ts'
import { type Cidr, maskOfWord } from './cidr.ts'

/** Items per step, a few milliseconds of work. */
export const stepSize = 4_096
/** Work that runs at once, or in steps that yield to other work. */
export type Steps<Result> = Generator<void, Result, void>

export function atOnce<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

export async function inSlices<Result>(steps: Steps<Result>): Promise<Result> {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
    await yieldToEventLoop()
  }
}

/** Ranges of one family as numbers. All arrays except `order` are indexed by member. */
export type Sweep = {
  /** Words per address. */
  readonly width: number
  /** Rule index of each member. */
  readonly members: Uint32Array
  /** First and last addresses, `width` words each, most significant first. */
  readonly firsts: Uint32Array
  readonly lasts: Uint32Array
  readonly prefixLengths: Uint8Array
  /** Members by first address, wider ranges first, and equal ranges in rule order. */
  readonly order: Uint32Array
}

/** Prepares a sweep over the ranges of one family: each range follows those that contain it. */
export function* inOrder(rules: readonly { readonly cidr: Cidr }[], family: 4 | 6): Steps<Sweep> {
  const width = family === 4 ? 1 : 4
  const members = Uint32Array.from(rules.keys().filter((index) => rules[index]?.cidr.network.family === family))
  const firsts = new Uint32Array(members.length * width)
  const lasts = new Uint32Array(members.length * width)
  const prefixLengths = new Uint8Array(members.length)
  yield
  for (const [member, rule] of members.entries()) {
    if (member % stepSize === stepSize - 1) yield
    const { network, prefixLength } = (rules[rule] as { cidr: Cidr }).cidr
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
  return { width, members, firsts, lasts, prefixLengths, order }
}

/** Sorts the numbers below `count` in runs, then merges the runs pairwise. */
function* sorted(count: number, compare: (a: number, b: number) => number): Steps<Uint32Array> {
  let order = Uint32Array.from({ length: count }, (_, index) => index)
  // Sorting is most of the work, and the database already delivers this order.
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

export function compareWords(a: Uint32Array, aIndex: number, b: Uint32Array, bIndex: number, width: number): number {
  for (let at = 0; at < width; at++) {
    const difference = (a[aIndex * width + at] as number) - (b[bIndex * width + at] as number)
    if (difference !== 0) return difference
  }
  return 0
}

/**
 * Writes the address after the one at `index` to `next`. Returns false, with `next` zero, if it was the last address of
 * the family.
 */
export function addressAfter(words: Uint32Array, index: number, next: Uint32Array): boolean {
  let at = next.length - 1
  for (let word = 0; word <= at; word++) next[word] = words[index * next.length + word] as number
  while (at >= 0 && next[at] === 0xffffffff) next[at--] = 0
  if (at < 0) return false
  next[at] = (next[at] as number) + 1
  return true
}

export function wordOf(address: Address, index: number): number {
  if (address.family === 4) return address.value
  return [address.w0, address.w1, address.w2, address.w3][index] as number
}
