import { isRemovedFromRequests } from './client_headers.ts'
import { headerNameFault } from './headers.ts'

/** How many requests a route accepts in a window before it answers 429. */
export type RateLimit = {
  requests: number
  per_seconds: number
  /** `source`, `route`, or `header:` and a header name. */
  key: string
  mode: (typeof rateLimitModes)[number]
  /** Absent: per node. */
  scope?: 'cell'
}

/** Counted per client address, for all clients of the route together, or per value of a header. */
export const rateLimitKeys = ['source', 'route'] as const
export const headerKeyPrefix = 'header:'
/** Letters, digits and hyphens: servers interpret other characters in header names differently. */
export const rateLimitKeyPattern = `^(?:${rateLimitKeys.join('|')}|${headerKeyPrefix}[A-Za-z0-9-]{1,64})$`
export const rateLimitModes = ['enforce', 'warn'] as const
export const rateLimitScopes = ['node', 'cell'] as const
export const rateLimitDefaults = { key: 'source', mode: 'enforce', scope: 'node' } as const
export const rateLimitMost = { requests: 1_000_000, per_seconds: 3_600 } as const

/** Number of header values per address and window that get a count of their own. */
export const headerValuesOfSource = 100

const isKey = new RegExp(rateLimitKeyPattern)

/** Completes the sentence 'key …'. */
export function rateLimitKeyFault(key: string): string | undefined {
  if (!isKey.test(key))
    return 'must be source, route, or header: and the name of a header of at most 64 letters, digits and hyphens'
  if (!key.startsWith(headerKeyPrefix)) return undefined
  const name = key.slice(headerKeyPrefix.length)
  return headerNameFault(name, 'remove') !== undefined || isRemovedFromRequests(name)
    ? 'must not name a header that edges remove from requests, or Host'
    : undefined
}

/** How many connections a TCP edge accepts in a window before it closes further ones. */
export type ConnectionLimit = {
  connections: number
  per_seconds: number
  key: (typeof connectionLimitKeys)[number]
  mode: (typeof rateLimitModes)[number]
  /** Absent: per node. */
  scope?: 'cell'
}
export const connectionLimitKeys = ['source', 'edge'] as const
