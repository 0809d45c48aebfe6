export function quantile(milliseconds: readonly number[], share: number): number {
  const sorted = milliseconds.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** As drills print them: the median, the slowest in a hundred, and the slowest of all. */
export function quantiles(milliseconds: readonly number[]): string {
  const at = (share: number) => quantile(milliseconds, share).toFixed(1)
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms`
}
