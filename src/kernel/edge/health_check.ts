/** How an edge node checks whether a server is usable. */
export type HealthCheck = {
  type: HealthCheckType
  /** Null for TCP. */
  path: string | null
} & Record<HealthCheckNumber, number>

export const healthCheckTypes = ['tcp', 'http'] as const
export type HealthCheckType = (typeof healthCheckTypes)[number]
export type HealthCheckNumber = keyof typeof healthCheckLimits

export const healthCheckLimits = {
  interval_seconds: { default: 10, most: 300 },
  healthy_after: { default: 2, most: 10 },
  unhealthy_after: { default: 3, most: 10 },
} as const

export const defaultCheckPath = '/'
export const maxCheckPathBytes = 256
/** Path and query characters without special meaning in HAProxy's configuration or runtime commands. */
export const checkPathPattern = '^/[A-Za-z0-9._~!&()*+,=:@/?%-]*$'
