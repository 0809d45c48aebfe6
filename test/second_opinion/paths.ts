// What paths mean and what becomes of them, written from the docs alone, like specification.ts.
import type { Rewrite, Route } from './specification.ts'

const decoded = (path: string) =>
  path.replaceAll(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
export const decodedBetweenSeparators = (path: string) => path.replaceAll(/%(?!2f|5c)[0-9a-f]{2}/gi, decoded)
const withoutParameters = (path: string) => path.replaceAll(/;[^/]*/g, '')
const cutAtParameters = (path: string) => path.replace(/;.*$/, '')
const withOneLeadingSlash = (path: string) => path.replace(/^\/+/, '/')
/** What follows two slashes is a host to some. */
const withoutAuthority = (path: string) => path.replace(/^\/\/+[^/]*/, '') || '/'
const withoutRepeatedSlashes = (path: string) => path.replaceAll(/\/+/g, '/')

export function withoutDots(path: string): string {
  const segments: string[] = []
  const parts = path.split('/').slice(1)
  for (const [index, part] of parts.entries()) {
    const name = decoded(part)
    if (name === '..') segments.pop()
    if (name !== '.' && name !== '..') segments.push(part)
    else if (index === parts.length - 1) segments.push('')
  }
  return `/${segments.join('/')}`
}
/** Percent-encoding that means the same as the character itself (RFC 3986, unreserved). */
const withPlainLetters = (path: string) =>
  path.replaceAll(/%[0-9a-f]{2}/gi, (code) => (/[\w.~-]/.test(decoded(code)) ? decoded(code) : code))
/** As the server reads it that decodes and cuts the most, with backslashes as separators. */
export const canonical = (path: string) =>
  withoutRepeatedSlashes(withoutParameters(withoutDots(decoded(path).replaceAll('\\', '/'))))

/** Every path that some server makes of this one: it may or may not take each of these steps, in any order. */
export function readings(path: string): Set<string> {
  const steps = [decoded, withoutParameters, cutAtParameters, withoutDots, withoutRepeatedSlashes, withoutAuthority]
  const found = new Set([withOneLeadingSlash(withoutDots(decoded(path)))])
  for (const reading of found) for (const step of steps) found.add(step(reading))
  return found
}

export const covers = (match: string, type: Route['match_type'], path: string) =>
  path === match || (type === 'path_prefix' && path.startsWith(match.endsWith('/') ? match : `${match}/`))

export const forwardedPath = (path: string) => withoutDots(withOneLeadingSlash(withPlainLetters(path)))

/** 'Which path the upstream gets' in docs/guides/rewrites.md; undefined for a path that is refused. */
export function rewritten({ strip_prefix, add_prefix }: Rewrite, path: string): string | undefined {
  const prefix = (strip_prefix ?? '').split('/')
  const segments = path.split('/')
  const hasPrefix = prefix.every((segment, at) => decoded(segments[at] ?? '') === segment)
  if (!hasPrefix && covers(prefix.join('/'), 'path_prefix', canonical(path))) return undefined
  const rest = withOneLeadingSlash(`/${(hasPrefix ? segments.slice(prefix.length) : segments).join('/')}`)
  if (withoutParameters(decoded(rest).replaceAll('\\', '/')).startsWith('//')) return undefined
  const isInside = [...readings(`/-${rest}`)].every((reading) => covers('/-', 'path_prefix', reading))
  return add_prefix === null || isInside ? (add_prefix ?? '') + rest : undefined
}
