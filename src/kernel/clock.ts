/** Milliseconds since 1970. Passed in where time decides something, so that a test can hold it still. */
export type Clock = () => number

export const systemClock: Clock = Date.now

/** RFC 3339 in UTC with milliseconds, the one form in which times leave the service. */
export const rfc3339 = (milliseconds: number): string => new Date(milliseconds).toISOString()

/** Clocks this far apart break expiry times and certificates. */
export const maxClockOffsetMs = 30_000

/** How far our clock is ahead of another, which was read between two moments of ours: when exactly is unknown. */
export const clockOffset = (asked: number, theirs: number, answered: number): number =>
  theirs < asked ? asked - theirs : Math.min(0, answered - theirs)

/** For people; undefined when the clocks agree well enough. */
export function clockFault(offset: number, other: string): string | undefined {
  if (Math.abs(offset) <= maxClockOffsetMs) return undefined
  const seconds = Math.round(Math.abs(offset) / 1_000)
  return `this machine's clock is ${seconds} s ${offset > 0 ? 'ahead of' : 'behind'} that of ${other}`
}

const hourMs = 60 * 60 * 1_000

/** When the hour of a moment began. */
export const hourOf = (at: number): number => at - (at % hourMs)
