import { ConfigError } from '../kernel/config_error.ts'

const units = { m: 60, h: 60 * 60, d: 24 * 60 * 60 } as const

/** Converts a duration such as 30m, 1h or 2d to seconds. */
export function readLife(flag: string, value: string, longestSeconds: number): number {
  const [, count, unit] = /^([1-9]\d{0,4})([mhd])$/.exec(value) ?? []
  const seconds = Number(count) * (units[unit as keyof typeof units] ?? 0)
  if (!(seconds > 0 && seconds <= longestSeconds))
    throw new ConfigError(`${flag} must be a time up to ${longestSeconds / units.d} days, such as 30m, 1h or 2d`)
  return seconds
}
