const rfc3339Pattern = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/

/** Milliseconds since 1970, or undefined when the text is not a moment in RFC 3339. */
export function parseRfc3339(text: string): number | undefined {
  if (!rfc3339Pattern.test(text)) return undefined
  const milliseconds = Date.parse(text.toUpperCase())
  return Number.isNaN(milliseconds) || !sameDay(text, milliseconds) ? undefined : milliseconds
}

// Date.parse takes 30 February for 2 March.
function sameDay(text: string, milliseconds: number): boolean {
  const offset = /([+-])(\d\d):(\d\d)$/.exec(text)
  const minutes = offset ? Number(`${offset[1]}1`) * (Number(offset[2]) * 60 + Number(offset[3])) : 0
  return new Date(milliseconds + minutes * 60_000).toISOString().startsWith(text.slice(0, 10))
}
