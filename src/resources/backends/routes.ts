import { canonicalHostport } from '../../kernel/hostport.ts'
import { toId } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { healthRoute } from './health.ts'
import { Backend, BackendCreate, BackendQuery, BackendUpdate } from './schema.ts'
import { type BackendRow, deleteBackend, findBackend, insertBackend, listBackends, updateBackend } from './store.ts'
import { toBackend } from './view.ts'

const backends: Resource<{ id: 'bkdst' }, BackendRow, typeof Backend> = {
  name: 'static_backends',
  path: '/backends/static',
  params: { id: 'bkdst' },
  shape: Backend,
  view: toBackend,
  find: findBackend,
  records: ({ id }) => [`backend.${toId('bkdst', id)}`],
}

export const backendRoutes = [
  createRoute(backends, {
    access: 'anyone',
    body: BackendCreate,
    insert: (tx, { caller, body: { address, tls, protocol, send_proxy_protocol, ...annotations } }) =>
      insertBackend(tx, caller, {
        address: canonicalHostport(address),
        tls_enabled: tls?.enabled ?? false,
        protocol: protocol ?? 'http1',
        send_proxy_protocol: send_proxy_protocol ?? false,
        ...newAnnotations(annotations),
      }),
  }),
  getRoute(backends, { access: 'anyone' }),
  healthRoute(backends),
  listRoute(backends, { access: 'anyone', field: 'backends', query: BackendQuery, select: listBackends }),
  updateRoute(backends, {
    access: 'anyone',
    body: BackendUpdate,
    apply: (tx, { caller, body: { address, tls, protocol, send_proxy_protocol, ...annotations } }, before) =>
      updateBackend(tx, caller, before.id, {
        address: address === undefined ? before.address : canonicalHostport(address),
        tls_enabled: tls?.enabled ?? before.tls_enabled,
        protocol: protocol ?? before.protocol,
        send_proxy_protocol: send_proxy_protocol ?? before.send_proxy_protocol,
        ...patchedAnnotations(before, annotations),
      }),
  }),
  deleteRoute(backends, {
    summary: 'Delete a static backend. Refused while an edge or route uses it',
    access: 'anyone',
    errors: ['ERR_BACKEND_IN_USE'],
    remove: (tx, { caller, params }) => deleteBackend(tx, caller, params.id),
  }),
]
