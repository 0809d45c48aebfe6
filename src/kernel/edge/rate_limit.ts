import { isRemovedFromRequests } from './client_headers.ts'
import { headerNameFault } from './headers.ts'

/** How many requests a route takes in a window of time, before it answers 429. */
export type RateLimit = {
  requests: number
  per_seconds: number
  /** `source`, `route`, or `header:` and its name. */
  key: string
  mode: (typeof rateLimitModes)[number]
  /** Missing: of each node. */
  scope?: 'cell'
}

/** Counted for each client address, for all clients of the route together, or for each value of a header. */
export const rateLimitKeys = ['source', 'route'] as const
export const headerKeyPrefix = 'header:'
/** Letters, digits and hyphens: servers disagree on what other characters in a name mean. */
export const rateLimitKeyPattern = `^(?:${rateLimitKeys.join('|')}|${headerKeyPrefix}[A-Za-z0-9-]{1,64})$`
export const rateLimitModes = ['enforce', 'warn'] as const
export const rateLimitScopes = ['node', 'cell'] as const
export const rateLimitDefaults = { key: 'source', mode: 'enforce', scope: 'node' } as const
export const rateLimitMost = { requests: 1_000_000, per_seconds: 3_600 } as const

/** How many values of a header an address may bring in a window, each with a count of its own. */
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

/** How many connections a TCP edge takes in a window of time, before it closes them. */
export type ConnectionLimit = {
  connections: number
  per_seconds: number
  key: (typeof connectionLimitKeys)[number]
  mode: (typeof rateLimitModes)[number]
  /** Missing: of each node. */
  scope?: 'cell'
}
export const connectionLimitKeys = ['source', 'edge'] as const
