/**
 * Whether a scope of a key covers an operation, or another scope. Where a `*` is, anything may be, dots included. A
 * pattern has at most one.
 */
export function matches(pattern: string, text: string): boolean {
  const star = pattern.indexOf('*')
  if (star < 0) return pattern === text
  return (
    text.length >= pattern.length - 1 &&
    text.startsWith(pattern.slice(0, star)) &&
    text.endsWith(pattern.slice(star + 1))
  )
}
