import { useUrlState } from '../../ui/use_url_state.ts'

const [minuteMs, hourMs] = [60_000, 3_600_000]
/** Keys as in the URL; a number means hours. */
export const ranges = {
  '15m': { label: '15 min', words: 'in the last 15 minutes', ms: 15 * minuteMs, step: 'minute', stepMs: minuteMs },
  '1': { label: '1 h', words: 'in the last hour', ms: hourMs, step: 'minute', stepMs: minuteMs },
  '24': { label: '24 h', words: 'in the last 24 hours', ms: 24 * hourMs, step: 'hour', stepMs: hourMs },
  '168': { label: '7 d', words: 'in the last 7 days', ms: 168 * hourMs, step: 'hour', stepMs: hourMs },
  '720': { label: '30 d', words: 'in the last 30 days', ms: 720 * hourMs, step: 'day', stepMs: 24 * hourMs },
} as const
export type RangeName = keyof typeof ranges
export type Range = (typeof ranges)[RangeName]
export const rangeNames = ['15m', '1', '24', '168', '720'] as const satisfies readonly RangeName[]

/** The time range of all figures on a page, kept in the URL so that links preserve it. */
export function useRange() {
  const [name, setName] = useUrlState<RangeName>('range', '24')
  const known: RangeName = Object.hasOwn(ranges, name) ? name : '24'
  return { name: known, range: ranges[known], setName }
}

/** Start times of the steps up to now, oldest first. */
export function stepsOf({ ms, stepMs }: Range, now: number): number[] {
  const count = ms / stepMs
  const last = now - (now % stepMs)
  return Array.from({ length: count }, (_, index) => last - (count - 1 - index) * stepMs)
}
