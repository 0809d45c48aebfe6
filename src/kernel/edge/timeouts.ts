/** How long an edge waits for a route's upstream. */
export type RouteTimeouts = Record<TimeoutName, number | null>
export type TimeoutName = keyof typeof timeoutLimits

/** In seconds. The longest are long enough for reports and quiet streams, and end what would never end. */
export const timeoutLimits = {
  connect_seconds: { default: 5, longest: 60 },
  response_seconds: { default: 60, longest: 3_600 },
  idle_seconds: { default: 60, longest: 86_400 },
} as const

/** A WebSocket is quiet by nature. With `idle_seconds` the route decides about both. */
export const websocketIdleSeconds = 3_600
