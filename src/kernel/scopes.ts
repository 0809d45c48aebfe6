/**
 * Whether a scope covers an operation or another scope. `*` matches any text, including dots. A pattern has at most
 * one.
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
