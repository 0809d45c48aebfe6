import { isUtf8 } from 'node:buffer'

// Characters for which every upstream treats the encoded and the plain form alike.
const plain = /[A-Za-z0-9\-._~!$&'()*+,:;=@]/

/** Fast path for nearly all paths: segments of such characters that do not begin with a dot. */
const surelyCanonical = /^\/(?:(?!\.)[A-Za-z0-9\-._~!$&'()*+,:;=@]+(?:\/|$))*$/

const encodeByte = (byte: number): string => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`

/**
 * Maps all paths that an upstream may treat alike to one spelling, so that /%61dmin cannot bypass a policy on /admin.
 * The proxy looks up the same spelling, by normalize-uri and `canonical_path` in paths.lua. An encoded slash has no
 * single spelling, so matches never contain one.
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

/** `/api` and `/api/` are the same prefix: whole segments are compared, and a trailing slash starts none. */
export function prefixKey(edge: string, match: string): string {
  const path = canonicalPath(match)
  return `${edge}${path}${path.endsWith('/') ? '' : '/'}`
}

/**
 * One key for all spellings that a case-insensitive server, or one that ignores a trailing slash, may treat alike.
 * `folded` in paths.lua converts request paths equally; it folds the case of non-ASCII letters that it knows.
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

/**
 * Requests are looked up as path, slash and `|`. No path contains `|`, so only an identical path matches to the end.
 */
export const exactKey = (edge: string, match: string): string => `${edge}${canonicalPath(match)}/|`
