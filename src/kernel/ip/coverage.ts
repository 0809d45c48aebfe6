import type { Rule } from './ranges.ts'
import { addressAfter, atOnce, compareWords, inOrder, inSlices, type Steps, type Sweep, stepSize } from './sweep.ts'

/**
 * Why a rule of a policy is not needed as it stands:
 * - `shadowed`: an allow rule, and every address in its range is denied. It never decides.
 * - `redundant`: a wider rule with the same action covers it. Removing it changes no decision.
 * - `subdivided`: narrower rules, or denies, cover all of its range. It never decides, because the most specific rule is
 *   the one that is named, but it would if they were removed.
 *
 * All shadowed and all redundant rules can be removed together without changing a decision. Subdivided ones cannot be
 * added to them: the rules that a subdivided one is covered by are redundant because of it.
 */
export type CoverageKind = 'shadowed' | 'redundant' | 'subdivided'
export type Coverage = {
  readonly kind: CoverageKind
  /** Indexes of the covering rules by address: the widest ones, up to `maxNamed`. */
  readonly by: readonly number[]
  /** Number of covering rules. */
  readonly count: number
}

/** Limited because 100,000 denies may cover one allow rule. */
export const maxNamed = 100

/** By rule index; omits rules that are needed. No two rules of a policy have the same range. */
export const findCovered = (rules: readonly Rule[]): Map<number, Coverage> => atOnce(findInSteps(rules))

/** Like `findCovered`, yielding to the event loop. */
export const findCoveredInSlices = (rules: readonly Rule[]): Promise<Map<number, Coverage>> =>
  inSlices(findInSteps(rules))

function* findInSteps(rules: readonly Rule[]): Steps<Map<number, Coverage>> {
  const found = new Map<number, Coverage>()
  for (const family of [4, 6] as const) {
    const sweep = yield* inOrder(rules, family)
    const open: Node[] = []
    const closeInnermost = () => close(open, sweep, found)
    for (const [index, member] of sweep.order.entries()) {
      if (index % stepSize === stepSize - 1) yield
      while (open.length > 0 && !contains(sweep, (open.at(-1) as Node).member, member)) closeInnermost()
      open.push(nodeOf(rules, sweep, member, open.at(-1)))
    }
    while (open.length > 0) closeInnermost()
  }
  return found
}

/** A rule whose range contains the current position of the sweep. */
type Node = {
  readonly member: number
  readonly rule: number
  readonly isDeny: boolean
  /** Rule indexes of the widest deny and the widest allow around it. */
  readonly outerDeny: number | undefined
  readonly outerAllow: number | undefined
  /** Coverage by denies inside it, and by rules of either action. */
  readonly byDenies: Tiling
  readonly byAny: Tiling
}

function nodeOf(rules: readonly Rule[], { members }: Sweep, member: number, outer: Node | undefined): Node {
  const rule = members[member] as number
  return {
    member,
    rule,
    isDeny: rules[rule]?.action === 'deny',
    outerDeny: outer?.outerDeny ?? (outer?.isDeny ? outer.rule : undefined),
    outerAllow: outer?.outerAllow ?? (outer && !outer.isDeny ? outer.rule : undefined),
    byDenies: new Tiling(),
    byAny: new Tiling(),
  }
}

function close(open: Node[], sweep: Sweep, found: Map<number, Coverage>): void {
  const node = open.pop() as Node
  const coverage = coverageOf(node, sweep)
  if (coverage) found.set(node.rule, coverage)
  const outer = open.at(-1)
  if (!outer) return
  const itself = { by: [node.rule], count: 1 }
  outer.byDenies.add(sweep, outer.member, node.member, node.isDeny ? itself : node.byDenies.whole(sweep, node.member))
  outer.byAny.add(sweep, outer.member, node.member, itself)
}

function coverageOf({ member, isDeny, outerDeny, outerAllow, byDenies, byAny }: Node, sweep: Sweep) {
  const denied = byDenies.whole(sweep, member)
  const one = (kind: CoverageKind, rule: number): Coverage => ({ kind, by: [rule], count: 1 })
  if (isDeny) {
    if (outerDeny !== undefined) return one('redundant', outerDeny)
    return denied && ({ kind: 'subdivided', ...denied } satisfies Coverage)
  }
  if (outerDeny !== undefined) return one('shadowed', outerDeny)
  if (denied) return { kind: 'shadowed', ...denied } satisfies Coverage
  if (outerAllow !== undefined) return one('redundant', outerAllow)
  const divided = byAny.whole(sweep, member)
  return divided && ({ kind: 'subdivided', ...divided } satisfies Coverage)
}

type Cover = Omit<Coverage, 'kind'>

/** Checks whether ascending ranges inside another leave no gap. */
class Tiling {
  #by: number[] = []
  #count = 0
  #last: number | undefined
  #hasGap = false

  /** `cover` is undefined if the inner range is not fully covered. */
  add({ width, firsts, lasts }: Sweep, outer: number, inner: number, cover: Cover | undefined): void {
    if (this.#hasGap) return
    const next = new Uint32Array(width)
    const isNext =
      this.#last === undefined
        ? compareWords(firsts, outer, firsts, inner, width) === 0
        : addressAfter(lasts, this.#last, next) && compareWords(next, 0, firsts, inner, width) === 0
    if (!cover || !isNext) {
      this.#hasGap = true
      this.#by = []
      return
    }
    for (const rule of cover.by) if (this.#by.length < maxNamed) this.#by.push(rule)
    this.#count += cover.count
    this.#last = inner
  }

  whole({ width, lasts }: Sweep, outer: number): Cover | undefined {
    if (this.#hasGap || this.#last === undefined) return undefined
    if (compareWords(lasts, this.#last, lasts, outer, width) !== 0) return undefined
    return { by: this.#by, count: this.#count }
  }
}

/** The ranges are in order, so they are nested or disjoint. */
const contains = ({ width, firsts, lasts }: Sweep, outer: number, inner: number): boolean =>
  compareWords(lasts, outer, firsts, inner, width) >= 0
