// Random choices that can be made again: the seed is printed, and GATEHOUSE_TEST_SEED sets it.
const seed = Number(process.env.GATEHOUSE_TEST_SEED ?? Math.floor(Math.random() * 2 ** 32))
console.log(`random choices from GATEHOUSE_TEST_SEED=${seed}`)

let state = seed >>> 0

/** From 0 up to, but not including, 1 (mulberry32). */
export function random(): number {
  state = (state + 0x6d2b79f5) >>> 0
  let mixed = state
  mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
}

/** A whole number from 0 up to, but not including, `limit`. */
export const randomBelow = (limit: number): number => Math.floor(random() * limit)
