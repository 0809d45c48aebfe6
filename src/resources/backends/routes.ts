import { failoverBackendRoutes } from './failover.ts'
import { accountHealthRoutes } from './health.ts'
import { responseBackendRoutes } from './http_response.ts'
import { staticBackendRoutes } from './static.ts'
import { weightedBackendRoutes } from './weighted.ts'

export const backendRoutes = [
  ...staticBackendRoutes,
  ...weightedBackendRoutes,
  ...failoverBackendRoutes,
  ...responseBackendRoutes,
  ...accountHealthRoutes,
]
