/** Milliseconds since 1970. Passed as an argument, so that tests can control it. */
export type Clock = () => number

export const systemClock: Clock = Date.now

/** RFC 3339 in UTC with milliseconds, the only output format for times. */
export const rfc3339 = (milliseconds: number): string => new Date(milliseconds).toISOString()

/** A larger offset breaks expiry times and certificates. */
export const maxClockOffsetMs = 30_000

/** How far our clock is ahead of another one, which was read at an unknown moment between two readings of ours. */
export const clockOffset = (asked: number, theirs: number, answered: number): number =>
  theirs < asked ? asked - theirs : Math.min(0, answered - theirs)

/** A message for the operator; undefined if the clocks agree closely enough. */
export function clockFault(offset: number, other: string): string | undefined {
  if (Math.abs(offset) <= maxClockOffsetMs) return undefined
  const seconds = Math.round(Math.abs(offset) / 1_000)
  return `this machine's clock is ${seconds} s ${offset > 0 ? 'ahead of' : 'behind'} that of ${other}`
}

const hourMs = 60 * 60 * 1_000

export const hourOf = (at: number): number => at - (at % hourMs)
