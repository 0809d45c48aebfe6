import { methodPattern } from './filters.ts'
import { headerNamePattern } from './headers.ts'

/** Which other origins' pages may read a route's responses, as browsers check it. */
export type Cors = {
  allowed_origins: string[]
  allowed_methods: string[]
  allowed_headers: string[]
  exposed_headers: string[]
  max_age_seconds: number
  allow_credentials: boolean
}

export const corsDefaults = {
  allowed_methods: ['GET', 'HEAD', 'POST'],
  allowed_headers: [],
  exposed_headers: [],
  max_age_seconds: 600,
  allow_credentials: false,
} satisfies Partial<Cors>

/** `listBytes`: size of a list as a header value. */
export const corsLimits = { entries: 30, originBytes: 255, listBytes: 2_048, maxAgeSeconds: 86_400 } as const

export const anything = '*'

/** As browsers send it: lower case, without a path. A leading `*.` stands for one label. */
const host = '(?:\\*\\.)?[a-z0-9_-]{1,63}(?:\\.[a-z0-9_-]{1,63})*|\\[[0-9a-f:.]{2,45}\\]'
export const originPattern = `^(?:\\*|[a-z][a-z0-9+.-]{0,31}://(?:${host})(?::[1-9][0-9]{0,4})?)$`
export const corsMethodPattern = `^(?:\\*|${methodPattern.slice(1, -1)})$`
export const corsHeaderPattern = headerNamePattern

const isOrigin = new RegExp(originPattern)
const listPatterns = {
  allowed_methods: [new RegExp(corsMethodPattern), 'must be a method in upper case, or *'],
  allowed_headers: [new RegExp(corsHeaderPattern), 'must be the name of a header, or *'],
  exposed_headers: [new RegExp(corsHeaderPattern), 'must be the name of a header, or *'],
} as const

/** The part of `https://*.example.com` after the asterisk; undefined for an exact origin. */
export const parentOf = (origin: string): string | undefined => /^[^*]+:\/\/\*\.([^:]+)/.exec(origin)?.[1]

type Fault = { place: string; fault: string } | undefined

/** The invalid field and the reason. */
export function corsFault(cors: Cors): Fault {
  if (cors.allowed_origins.length === 0) return { place: 'allowed_origins', fault: 'must have at least one entry' }
  const { allowed_origins, allowed_methods, allowed_headers, exposed_headers } = cors
  const lists = { allowed_origins, allowed_methods, allowed_headers, exposed_headers }
  for (const [name, list] of Object.entries(lists)) {
    const found = listFault(name as keyof typeof lists, list)
    if (found) return found
  }
  const isStar = (list: readonly string[]) => list.includes(anything)
  if (isStar(allowed_origins) && allowed_origins.length > 1)
    return { place: 'allowed_origins', fault: 'must have no other entry beside *' }
  if (cors.allow_credentials && Object.values(lists).some(isStar))
    return {
      place: 'allow_credentials',
      fault: 'must be false if a list has *, which browsers do not accept for requests with credentials',
    }
  return undefined
}

function listFault(name: 'allowed_origins' | keyof typeof listPatterns, list: readonly string[]): Fault {
  if (list.length > corsLimits.entries) return { place: name, fault: `must have at most ${corsLimits.entries} entries` }
  const seen = new Set<string>()
  for (const [index, entry] of list.entries()) {
    const fault = name === 'allowed_origins' ? originFault(entry) : entryFault(name, entry)
    if (fault) return { place: `${name}[${index}]`, fault }
    if (seen.has(entry.toLowerCase())) return { place: `${name}[${index}]`, fault: 'must not be listed twice' }
    seen.add(entry.toLowerCase())
  }
  if (name !== 'allowed_origins' && list.join(',').length > corsLimits.listBytes)
    return { place: name, fault: `must take at most ${corsLimits.listBytes} bytes in all` }
  return undefined
}

function entryFault(name: keyof typeof listPatterns, entry: string): string | undefined {
  const [pattern, fault] = listPatterns[name]
  return pattern.test(entry) ? undefined : fault
}

function originFault(origin: string): string | undefined {
  if (origin === 'null') return 'must not be null, which any page can send from a sandboxed frame'
  if (origin.length > corsLimits.originBytes || !isOrigin.test(origin))
    return 'must be an origin such as https://app.example.com, in lower case and without a path, or one like https://*.example.com, or *'
  if (/^http:.*:80$|^https:.*:443$/.test(origin)) return 'must be without the default port, which browsers leave out'
  const parent = parentOf(origin)
  if (parent !== undefined && !parent.includes('.'))
    return 'must have two labels or more after *., such as https://*.example.com'
  return undefined
}
