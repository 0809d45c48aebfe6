/** All choices of one simulated history. The same seed makes the same ones. */
export function createChance(seed: number) {
  let state = (seed * 0x9e3779b1) >>> 0
  /** From 0 up to, but not including, 1 (mulberry32). */
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number): number => Math.floor(next() * limit)
  return {
    next,
    below,
    between: (low: number, high: number): number => low + below(high - low + 1),
    is: (share: number): boolean => next() < share,
    pick: <Item>(items: readonly Item[]): Item => items[below(items.length)] as Item,
  }
}
export type Chance = ReturnType<typeof createChance>
