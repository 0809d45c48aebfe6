import { backendStatuses } from '../../health/shown.ts'
import { defaultCheckPath, type HealthCheck, healthCheckLimits } from '../../kernel/edge/health_check.ts'
import { canonicalHostport } from '../../kernel/edge/hostport.ts'
import { invalidField } from '../../kernel/errors.ts'
import { toId } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { healthRoute } from './health.ts'
import { Backend, BackendCreate, BackendQuery, BackendUpdate, type HealthCheckSent } from './schema.ts'
import { insertStaticBackend, type StaticBackendRow, updateStaticBackend } from './static_store.ts'
import { deleteBackend, findBackend, listBackends } from './store.ts'
import { toBackend } from './view.ts'

const backends: Resource<{ id: 'bkdst' }, StaticBackendRow, typeof Backend> = {
  name: 'static_backends',
  quota: 'backends',
  path: '/backends/static',
  params: { id: 'bkdst' },
  shape: Backend,
  view: toBackend,
  statuses: backendStatuses,
  find: findBackend,
  records: ({ id }) => [`backend.${toId('bkdst', id)}`],
}

type Sent = { health_check?: HealthCheckSent | null }

function check({ health_check }: Sent): void {
  const { type, path } = health_check ?? {}
  if (type === 'tcp' && typeof path === 'string')
    throw invalidField('health_check.path', 'must be omitted with type tcp, which sends no request')
}

/** Fills in all fields, so that responses show the defaults. */
function healthCheckIn(sent: HealthCheckSent | null | undefined): HealthCheck | null {
  if (!sent) return null
  const { interval_seconds, healthy_after, unhealthy_after } = healthCheckLimits
  return {
    type: sent.type,
    path: sent.type === 'http' ? (sent.path ?? defaultCheckPath) : null,
    interval_seconds: sent.interval_seconds ?? interval_seconds.default,
    healthy_after: sent.healthy_after ?? healthy_after.default,
    unhealthy_after: sent.unhealthy_after ?? unhealthy_after.default,
  }
}

export const staticBackendRoutes = [
  createRoute(backends, {
    access: 'anyone',
    body: BackendCreate,
    check,
    insert: (tx, { caller, body: { address, tls, protocol, send_proxy_protocol, health_check, ...annotations } }) =>
      insertStaticBackend(tx, caller, {
        address: canonicalHostport(address),
        tls_enabled: tls?.enabled ?? false,
        protocol: protocol ?? 'http1',
        send_proxy_protocol: send_proxy_protocol ?? false,
        health_check: healthCheckIn(health_check),
        ...newAnnotations(annotations),
      }),
  }),
  getRoute(backends, { access: 'anyone' }),
  healthRoute(backends),
  listRoute(backends, {
    access: 'anyone',
    field: 'backends',
    query: BackendQuery,
    select: (db, caller, query) => listBackends<StaticBackendRow>(db, caller, 'static', query),
  }),
  updateRoute(backends, {
    access: 'anyone',
    body: BackendUpdate,
    check,
    apply: (
      tx,
      { caller, body: { address, tls, protocol, send_proxy_protocol, health_check, ...annotations } },
      before,
    ) =>
      updateStaticBackend(tx, caller, before.id, {
        address: address === undefined ? before.address : canonicalHostport(address),
        tls_enabled: tls?.enabled ?? before.tls_enabled,
        protocol: protocol ?? before.protocol,
        send_proxy_protocol: send_proxy_protocol ?? before.send_proxy_protocol,
        health_check: health_check === undefined ? before.health_check : healthCheckIn(health_check),
        ...patchedAnnotations(before, annotations),
      }),
  }),
  deleteRoute(backends, {
    summary: 'Delete a static backend. Refused while an edge, a route or another backend uses it',
    access: 'anyone',
    errors: ['ERR_BACKEND_IN_USE'],
    remove: (tx, { caller, params }) => deleteBackend(tx, caller, params.id),
  }),
]
