import { type Spread, spreadOf } from '../harness/statistics.ts'

/** Milliseconds of something that was done again and again, and what it may take. */
export type Measured = { name: string; milliseconds: Spread; most: number; goal?: number }

export const measured = (name: string, values: readonly number[], goal?: number): Measured => ({
  name,
  milliseconds: spreadOf(values),
  most: Math.max(...values),
  ...(goal !== undefined && { goal }),
})

export async function timed<Result>(into: number[], work: () => Promise<Result>): Promise<Result> {
  const began = performance.now()
  const result = await work()
  into.push(performance.now() - began)
  return result
}

/** Named lists that grow as they are asked for. */
export function createTimes() {
  const times = new Map<string, number[]>()
  return (name: string): number[] => {
    const known = times.get(name) ?? []
    times.set(name, known)
    return known
  }
}
