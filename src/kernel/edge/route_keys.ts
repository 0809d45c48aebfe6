import { isUtf8 } from 'node:buffer'

// Characters that mean the same with and without their encoding to any upstream that decodes paths.
const plain = /[A-Za-z0-9\-._~!$&'()*+,:;=@]/

/** Nearly every path is: segments of such characters that do not begin with a dot. */
const surelyCanonical = /^\/(?:(?!\.)[A-Za-z0-9\-._~!$&'()*+,:;=@]+(?:\/|$))*$/

const encodeByte = (byte: number): string => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`

/**
 * One spelling for all paths that an upstream could take for the same, since a policy on /admin must not be evaded
 * with /%61dmin: the spelling in which the proxy looks requests up, by normalize-uri and `canonical_path` in
 * paths.lua. An encoded slash has no one spelling; a match contains none.
 */
export function canonicalPath(match: string): string {
  if (surelyCanonical.test(match)) return match
  const bytes = Buffer.from(match.toWellFormed(), 'utf8').toString('latin1')
  const spelled = bytes.replaceAll(/%([0-9A-Fa-f]{2})|[\s\S]/g, (token, hex?: string) => {
    const character = hex === undefined ? token : String.fromCharCode(Number.parseInt(hex, 16))
    const isSlash = hex === undefined && token === '/'
    return plain.test(character) || isSlash ? character : encodeByte(character.charCodeAt(0))
  })
  return withoutDotSegments(spelled).replaceAll(/\/\/+/g, '/')
}

function withoutDotSegments(path: string): string {
  const segments: string[] = []
  const parts = path.split('/').slice(1)
  for (const [index, part] of parts.entries()) {
    const isDots = part === '.' || part === '..'
    if (part === '..') segments.pop()
    if (!isDots) segments.push(part)
    // The part before a dot segment is a folder, even if nothing follows.
    else if (index === parts.length - 1) segments.push('')
  }
  return `/${segments.join('/')}`
}

/** `/api` and `/api/` are the same prefix: whole segments are compared, and the last slash begins none. */
export function prefixKey(edge: string, match: string): string {
  const path = canonicalPath(match)
  return `${edge}${path}${path.endsWith('/') ? '' : '/'}`
}

/**
 * One key for all spellings of a match that a server might treat alike, because it ignores case or a slash at the end.
 * `folded` in paths.lua does the same to the paths of requests; letters of other scripts have their case folded there as far
 * as it knows them.
 */
export const foldedPath = (match: string): string => lowerCase(canonicalPath(match)).replace(/\/+$/, '')
export const prefixGuardKey = (edge: string, match: string): string => `${edge}${foldedPath(match)}/`
export const exactGuardKey = (edge: string, match: string): string => `${edge}${foldedPath(match)}/|`

function lowerCase(path: string): string {
  const plainLower = path.toLowerCase()
  if (!plainLower.includes('%')) return plainLower
  return plainLower.replaceAll(/(?:%[89a-f][0-9a-f])+/g, (encoded) => {
    const bytes = Buffer.from(encoded.replaceAll('%', ''), 'hex')
    const lower = Buffer.from(bytes.toString('utf8').toLowerCase(), 'utf8')
    return isUtf8(bytes) ? lower.toString('hex').replaceAll(/../g, '%$&') : encoded
  })
}

/** Requests are looked up as path, slash and `|`, which no path holds: only the very same path goes up to its end. */
export const exactKey = (edge: string, match: string): string => `${edge}${canonicalPath(match)}/|`
