import { canonicalHostport } from '../../kernel/hostport.ts'
import { toId } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations, shownAnnotations } from '../../operations/annotations.ts'
import { resource } from '../../operations/resource.ts'
import { Backend, BackendCreate, BackendQuery, BackendUpdate } from './schema.ts'
import { type BackendRow, deleteBackend, findBackend, insertBackend, listBackends, updateBackend } from './store.ts'

function toBackend(row: BackendRow, uri: (path: string) => string): Backend {
  const id = toId('bkdst', row.id)
  return {
    id,
    uri: uri(`/backends/static/${id}`),
    created_at: row.created_at,
    ...shownAnnotations(row),
    address: row.address,
    tls: { enabled: row.tls_enabled },
    protocol: row.protocol,
  }
}

const backends = resource({
  name: 'static_backends',
  prefix: 'bkdst',
  path: '/backends/static',
  shape: Backend,
  view: toBackend,
  find: findBackend,
  records: ({ id }) => [`backend.${toId('bkdst', id)}`],
})

export const backendRoutes = [
  backends.create({
    access: 'anyone',
    body: BackendCreate,
    insert: (tx, { caller, body: { address, tls, protocol, ...annotations } }) =>
      insertBackend(tx, caller, {
        address: canonicalHostport(address),
        tls_enabled: tls?.enabled ?? false,
        protocol: protocol ?? 'http1',
        ...newAnnotations(annotations),
      }),
  }),
  backends.get(),
  backends.list({ field: 'backends', query: BackendQuery, select: listBackends }),
  backends.update({
    access: 'anyone',
    body: BackendUpdate,
    apply: (tx, { caller, body: { address, tls, protocol, ...annotations } }, before) =>
      updateBackend(tx, caller, before.id, {
        address: address === undefined ? before.address : canonicalHostport(address),
        tls_enabled: tls?.enabled ?? before.tls_enabled,
        protocol: protocol ?? before.protocol,
        ...patchedAnnotations(before, annotations),
      }),
  }),
  backends.delete({
    summary: 'Delete a static backend. Refused while an edge or route uses it',
    access: 'anyone',
    errors: ['ERR_BACKEND_IN_USE'],
    remove: (tx, { caller, params }) => deleteBackend(tx, caller, params.id),
  }),
]
