/** How many requests a route takes in a window of time, before it answers 429. */
export type RateLimit = {
  requests: number
  per_seconds: number
  key: (typeof rateLimitKeys)[number]
  mode: (typeof rateLimitModes)[number]
}

/** Counted for each client address, or for all clients of the route together. */
export const rateLimitKeys = ['source', 'route'] as const
export const rateLimitModes = ['enforce', 'warn'] as const
export const rateLimitDefaults = { key: 'source', mode: 'enforce' } as const
export const rateLimitMost = { requests: 1_000_000, per_seconds: 3_600 } as const

/** How many connections a TCP edge takes in a window of time, before it closes them. */
export type ConnectionLimit = {
  connections: number
  per_seconds: number
  key: (typeof connectionLimitKeys)[number]
  mode: (typeof rateLimitModes)[number]
}
export const connectionLimitKeys = ['source', 'edge'] as const
