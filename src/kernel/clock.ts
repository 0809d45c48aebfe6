/** Milliseconds since 1970. Passed in where time decides something, so that a test can hold it still. */
export type Clock = () => number

export const systemClock: Clock = Date.now

/** RFC 3339 in UTC with milliseconds, the one form in which times leave the service. */
export const rfc3339 = (milliseconds: number): string => new Date(milliseconds).toISOString()

const hourMs = 60 * 60 * 1_000

/** When the hour of a moment began. */
export const hourOf = (at: number): number => at - (at % hourMs)
