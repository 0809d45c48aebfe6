let relative: Intl.RelativeTimeFormat | undefined
/** Created lazily: creating it takes longer than most other work of a command. */
function inWords(distance: number, unit: Intl.RelativeTimeFormatUnit): string {
  relative ??= new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' })
  return relative.format(distance, unit)
}

const steps = [
  [60, 'second'],
  [60, 'minute'],
  [24, 'hour'],
  [30, 'day'],
  [12, 'month'],
  [Number.POSITIVE_INFINITY, 'year'],
] as const

/** Distance of a moment in words: `3 min. ago`, `in 2 days`. */
export function ago(moment: string, now = Date.now()): string {
  let distance = (Date.parse(moment) - now) / 1000
  if (Math.abs(distance) < 5) return 'just now'
  for (const [size, unit] of steps) {
    if (Math.abs(distance) < size) return inWords(Math.round(distance), unit)
    distance /= size
  }
  return moment
}
