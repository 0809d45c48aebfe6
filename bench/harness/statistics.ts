/** The median and the quartiles, as they are printed and as machines read them. */
export type Spread = { median: number; low: number; high: number }

export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.round((sorted.length - 1) * share)] ?? Number.NaN
  return { median: at(0.5), low: at(0.25), high: at(0.75) }
}

export const shown = ({ median, low, high }: Spread, digits = 2): string =>
  `${median.toFixed(digits)} (${low.toFixed(digits)}–${high.toFixed(digits)})`
