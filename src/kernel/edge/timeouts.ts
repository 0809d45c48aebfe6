/** How long an edge waits for a route's upstream. */
export type RouteTimeouts = Record<TimeoutName, number | null>
export type TimeoutName = keyof typeof timeoutLimits

/** In seconds. The maxima leave room for reports and quiet streams, and still end hung requests. */
export const timeoutLimits = {
  connect_seconds: { default: 5, longest: 60 },
  response_seconds: { default: 60, longest: 3_600 },
  idle_seconds: { default: 60, longest: 86_400 },
} as const

/** WebSockets are often idle. `idle_seconds` of the route overrides this for both. */
export const websocketIdleSeconds = 3_600
