import { rfc3339 } from './clock.ts'

const rfc3339Pattern = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/

// In UTC. ISO 8601 requires a sign beyond these years, and PostgreSQL has no year 0.
const earliest = Date.parse('0001-01-01T00:00:00.000Z')
const latest = Date.parse('9999-12-31T23:59:59.999Z')

/** Milliseconds since 1970; undefined for text that is not an RFC 3339 timestamp of the years 1 to 9999. */
export function parseRfc3339(text: string): number | undefined {
  if (!rfc3339Pattern.test(text)) return undefined
  const milliseconds = Date.parse(text.toUpperCase())
  const isInRange = milliseconds >= earliest && milliseconds <= latest
  return isInRange && sameDay(text, milliseconds) ? milliseconds : undefined
}

/** Canonical form of a validated timestamp. Null: never expires. */
export function canonicalExpiry(text: string | null | undefined): string | null {
  const moment = text ? parseRfc3339(text) : undefined
  return moment === undefined ? null : rfc3339(moment)
}

// Date.parse reads 30 February as 2 March.
function sameDay(text: string, milliseconds: number): boolean {
  const offset = /([+-])(\d\d):(\d\d)$/.exec(text)
  const minutes = offset ? Number(`${offset[1]}1`) * (Number(offset[2]) * 60 + Number(offset[3])) : 0
  return new Date(milliseconds + minutes * 60_000).getUTCDate() === Number(text.slice(8, 10))
}
