/** One figure, in samples taken at equal intervals. */
export type Series = {
  name: string
  unit: 'MiB' | 'count' | 'ms'
  values: number[]
  /** The reason, if it may grow as long as there is load. */
  mayGrow?: string
}
export type Trend = {
  /** Medians of the first and of the last third. */
  first: number
  last: number
  /** Least squares over the last two thirds: the first one is for warming up. */
  perHour: number
  fault: string | undefined
}

/** Memory and disk may vary by this share of them and by this many MiB in an hour. */
const [steadyShare, steadyMiB] = [0.1, 4]
const parts = 6
/** Pairs of parts that rise, less those that fall: of 15, at most one may fall. By chance, one series in 120 gets there. */
const clearlyRising = 13

export function trendOf(series: Series, samplesPerHour: number): Trend {
  const values = series.values.filter(Number.isFinite)
  const third = Math.floor(values.length / 3)
  const later = values.slice(third)
  const [first, last] = [median(values.slice(0, third)), median(values.slice(-third))]
  const perHour = slope(later) * samplesPerHour
  const limit = Math.max(steadyMiB, steadyShare * first)
  const isFault = {
    MiB: () => perHour > limit && isRising(later, limit / samplesPerHour),
    count: () => isRising(later),
    ms: () => last > 2 * first,
  }[series.unit]
  const fault =
    !series.mayGrow && isFault()
      ? `${series.name} grows: ${first.toFixed(1)} ${series.unit} in the first third, ${last.toFixed(1)} in the last, ${perHour.toFixed(1)} per hour`
      : undefined
  return { first, last, perHour, fault }
}

/**
 * Compares minima, because what is left after garbage collection rises only if something leaks. In the second half it must
 * still rise by more than `perSample`: a buffer or a cache that fills has an end.
 */
function isRising(values: readonly number[], perSample = 0): boolean {
  const size = values.length / parts
  if (size < 1) return false
  const minima = Array.from({ length: parts }, (_, part) =>
    Math.min(...values.slice(Math.round(part * size), Math.round((part + 1) * size))),
  )
  const rises = minima.flatMap((minimum, at) => minima.slice(at + 1).map((later) => Math.sign(later - minimum)))
  const [middle = 0, , end = 0] = minima.slice(parts / 2)
  return rises.reduce((sum, sign) => sum + sign, 0) >= clearlyRising && (end - middle) / (2 * size) > perSample
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

/** Per sample. */
function slope(values: readonly number[]): number {
  const middle = (values.length - 1) / 2
  const squares = values.reduce((sum, _, at) => sum + (at - middle) ** 2, 0)
  return values.reduce((sum, value, at) => sum + (at - middle) * value, 0) / squares
}
