import { backendStatuses } from '../../health/shown.ts'
import type { InstallationSettings } from '../../http/route.ts'
import { responseFault } from '../../kernel/edge/fixed_response.ts'
import { mangledNameFault } from '../../kernel/edge/headers.ts'
import { invalidField } from '../../kernel/errors.ts'
import { toId } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { healthRoute } from './health.ts'
import {
  ResponseBackend,
  ResponseBackendCreate,
  ResponseBackendQuery,
  ResponseBackendUpdate,
} from './response_schema.ts'
import { insertResponse, type ResponseColumns, type ResponseRow, updateResponse } from './response_store.ts'
import { deleteBackend, findBackend, listBackends } from './store.ts'
import { toResponseBackend } from './view.ts'

const backends: Resource<{ id: 'bkdhr' }, ResponseRow, typeof ResponseBackend> = {
  name: 'http_response_backends',
  quota: 'backends',
  path: '/backends/http_response',
  params: { id: 'bkdhr' },
  shape: ResponseBackend,
  view: toResponseBackend,
  statuses: backendStatuses,
  find: findBackend,
  records: ({ id }) => [`response.${toId('bkdhr', id)}`],
}

const empty: ResponseColumns = { status_code: 200, headers: {}, body: '' }

function refuseFaults({ status_code: status, headers, body }: ResponseColumns): void {
  const found = responseFault({ status, headers: Object.entries(headers), body })
  if (found) throw invalidField(found.place, found.fault)
}

type Sent = Partial<ResponseColumns>
const responseIn = ({ status_code, headers, body }: Sent, otherwise: ResponseColumns): ResponseColumns => ({
  status_code: status_code ?? otherwise.status_code,
  headers: headers ?? otherwise.headers,
  body: body ?? otherwise.body,
})

/** Fields that a PATCH omits count as empty here; the merged result is checked later. */
function check(sent: Sent, _settings: InstallationSettings, isVendorClient: boolean): void {
  refuseFaults(responseIn(sent, empty))
  const mangled = isVendorClient ? mangledNameFault(sent.headers ?? {}) : undefined
  if (mangled) throw invalidField(mangled.place.replace(/^add/, 'headers'), mangled.fault)
}

export const responseBackendRoutes = [
  createRoute(backends, {
    access: 'anyone',
    body: ResponseBackendCreate,
    check,
    insert: (tx, { caller, body }) =>
      insertResponse(tx, caller, { ...responseIn(body, empty), ...newAnnotations(body) }),
  }),
  getRoute(backends, { access: 'anyone' }),
  healthRoute(backends, 'Get the health of an HTTP response backend: an empty list, because it has no addresses'),
  listRoute(backends, {
    access: 'anyone',
    field: 'backends',
    query: ResponseBackendQuery,
    select: (db, caller, query) => listBackends<ResponseRow>(db, caller, 'http_response', query),
  }),
  updateRoute(backends, {
    access: 'anyone',
    body: ResponseBackendUpdate,
    check,
    async apply(tx, { caller, body }, before) {
      const response = responseIn(body, before)
      refuseFaults(response)
      return updateResponse(tx, caller, before.id, { ...response, ...patchedAnnotations(before, body) })
    },
  }),
  deleteRoute(backends, {
    summary: 'Delete an HTTP response backend. Refused while a route or another backend uses it',
    access: 'anyone',
    errors: ['ERR_BACKEND_IN_USE'],
    remove: (tx, { caller, params }) => deleteBackend(tx, caller, params.id),
  }),
]
