import { type Cidr, containsCidr, maskOfWord } from './cidr.ts'
import type { CompiledPolicy, RangeTable } from './ranges.ts'
import { addressAfter, compareWords, wordOf } from './sweep.ts'

/** Updates a table of ranges for a changed policy without recompiling the rest. */
export type Replacement = {
  /** Nothing has changed outside these. They must not be nested; see `outermost`. */
  readonly regions: readonly Cidr[]
  /** Compiled from the rules that overlap the regions, with its own numbering. */
  readonly part: CompiledPolicy
  /** Translates a verdict of the part into one of the whole. */
  readonly adopt: (verdict: number) => number
  /** Whether two verdicts of the whole name the same rule and action. */
  readonly isSame: (a: number, b: number) => boolean
}

/** Produces the same ranges as compiling all rules. Rule numbers may differ, and one rule may have several. */
export const splicePolicy = (before: CompiledPolicy, replacement: Replacement): CompiledPolicy => ({
  v4: spliceTable(before.v4, replacement, 4),
  v6: spliceTable(before.v6, replacement, 6),
})

/** Removes ranges inside others and sorts the rest by address. */
export function outermost(cidrs: readonly Cidr[]): Cidr[] {
  const inOrder = cidrs.toSorted((a, b) => compareNetworks(a, b) || a.prefixLength - b.prefixLength)
  const found: Cidr[] = []
  for (const cidr of inOrder) {
    const last = found.at(-1)
    if (!last || !containsCidr(last, cidr)) found.push(cidr)
  }
  return found
}

function compareNetworks({ network: a }: Cidr, { network: b }: Cidr): number {
  if (a.family !== b.family) return a.family - b.family
  for (let index = 0; index < widthOf(a.family); index++) {
    const difference = wordOf(a, index) - wordOf(b, index)
    if (difference !== 0) return difference
  }
  return 0
}

const widthOf = (family: 4 | 6): number => (family === 4 ? 1 : 4)

function spliceTable(before: RangeTable, { regions, part, adopt, isSame }: Replacement, family: 4 | 6): RangeTable {
  const own = regions.filter(({ network }) => network.family === family)
  if (own.length === 0) return before
  const width = widthOf(family)
  const fresh = family === 4 ? part.v4 : part.v6
  const capacity = before.verdicts.length + fresh.verdicts.length + 2 * own.length
  const out = new SplicedTable(capacity, width, isSame)
  let copied = 0
  for (const region of own) {
    const { first, last, next } = boundsOf(region)
    out.copy(before, copied, startsBelow(before, first, width))
    let at = startsUpTo(fresh, first, width)
    out.changeAt(first, 0, adopt(at === 0 ? 0 : (fresh.verdicts[at - 1] as number)))
    for (; at < fresh.verdicts.length && compareWords(fresh.starts, at, last, 0, width) <= 0; at++)
      out.changeAt(fresh.starts, at, adopt(fresh.verdicts[at] as number))
    copied = next ? startsUpTo(before, next, width) : before.verdicts.length
    if (next) out.changeAt(next, 0, copied === 0 ? 0 : (before.verdicts[copied - 1] as number))
  }
  out.copy(before, copied, before.verdicts.length)
  return out.finish()
}

/** The first and last address of a range, and the address after it unless it is the family's last. */
export function boundsOf({ network, prefixLength }: Cidr): {
  first: Uint32Array
  last: Uint32Array
  next: Uint32Array | undefined
} {
  const indexes = Array.from({ length: widthOf(network.family) }, (_, index) => index)
  const first = Uint32Array.from(indexes, (index) => wordOf(network, index))
  const last = Uint32Array.from(indexes, (index) => wordOf(network, index) | ~maskOfWord(prefixLength, index))
  const next = new Uint32Array(first.length)
  return { first, last, next: addressAfter(last, 0, next) ? next : undefined }
}

/** Number of ranges that start below the address. */
export function startsBelow({ starts, verdicts }: RangeTable, address: Uint32Array, width: number): number {
  let [low, high] = [0, verdicts.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (compareWords(starts, middle, address, 0, width) < 0) low = middle + 1
    else high = middle
  }
  return low
}

/** Number of ranges that start at or below the address. */
export function startsUpTo(table: RangeTable, address: Uint32Array, width: number): number {
  const below = startsBelow(table, address, width)
  const isThere = below < table.verdicts.length && compareWords(table.starts, below, address, 0, width) === 0
  return isThere ? below + 1 : below
}

class SplicedTable {
  readonly #width: number
  readonly #isSame: (a: number, b: number) => boolean
  readonly #starts: Uint32Array
  readonly #verdicts: Int32Array
  #count = 0

  constructor(capacity: number, width: number, isSame: (a: number, b: number) => boolean) {
    this.#width = width
    this.#isSame = isSame
    this.#starts = new Uint32Array(capacity * width)
    this.#verdicts = new Int32Array(capacity)
  }

  /** Copies ranges unchanged: each verdict already differs from the one before it. */
  copy({ starts, verdicts }: RangeTable, from: number, to: number): void {
    if (to <= from) return
    this.#starts.set(starts.subarray(from * this.#width, to * this.#width), this.#count * this.#width)
    this.#verdicts.set(verdicts.subarray(from, to), this.#count)
    this.#count += to - from
  }

  /** Call it in ascending order. The second call for an address wins. */
  changeAt(words: Uint32Array, index: number, verdict: number): void {
    const width = this.#width
    if (this.#count > 0 && compareWords(this.#starts, this.#count - 1, words, index, width) === 0) this.#count--
    const current = this.#count > 0 ? (this.#verdicts[this.#count - 1] as number) : 0
    if (this.#isSame(verdict, current)) return
    for (let at = 0; at < width; at++) this.#starts[this.#count * width + at] = words[index * width + at] as number
    this.#verdicts[this.#count++] = verdict
  }

  finish(): RangeTable {
    return {
      starts: this.#starts.subarray(0, this.#count * this.#width),
      verdicts: this.#verdicts.subarray(0, this.#count),
    }
  }
}
