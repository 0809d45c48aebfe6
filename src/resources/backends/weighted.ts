import { backendStatuses } from '../../health/shown.ts'
import { type Id, toId } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import {
  WeightedBackend,
  WeightedBackendCreate,
  WeightedBackendQuery,
  WeightedBackendUpdate,
  type Weights,
} from './group_schema.ts'
import { type GroupRow, insertGroup, updateGroup } from './group_store.ts'
import { healthRoute } from './health.ts'
import { deleteBackend, findBackend, holdBackends, listBackends } from './store.ts'
import { toWeightedBackend } from './view.ts'

const backends: Resource<{ id: 'bkdwd' }, GroupRow, typeof WeightedBackend> = {
  name: 'weighted_backends',
  quota: 'backends',
  path: '/backends/weighted',
  params: { id: 'bkdwd' },
  shape: WeightedBackend,
  view: toWeightedBackend,
  statuses: backendStatuses,
  find: findBackend,
  records: ({ id }) => [`weighted.${toId('bkdwd', id)}`],
}

const idsIn = (weights: Weights) => Object.keys(weights) as Id<'bkdst'>[]
const membersIn = (weights: Weights) => idsIn(weights).map((id) => ({ id, weight: weights[id] ?? 0 }))
const place = (id: string) => `backends.${id}`

export const weightedBackendRoutes = [
  createRoute(backends, {
    access: 'anyone',
    body: WeightedBackendCreate,
    async insert(tx, { caller, body }) {
      await holdBackends(tx, caller, idsIn(body.backends), place)
      return insertGroup(tx, caller, 'weighted', newAnnotations(body), membersIn(body.backends))
    },
  }),
  getRoute(backends, { access: 'anyone' }),
  healthRoute(backends),
  listRoute(backends, {
    access: 'anyone',
    field: 'backends',
    query: WeightedBackendQuery,
    select: (db, caller, query) => listBackends<GroupRow>(db, caller, 'weighted', query),
  }),
  updateRoute(backends, {
    access: 'anyone',
    body: WeightedBackendUpdate,
    async apply(tx, { caller, body }, before) {
      if (body.backends) await holdBackends(tx, caller, idsIn(body.backends), place)
      const members = body.backends && membersIn(body.backends)
      return updateGroup(tx, caller, 'weighted', before.id, patchedAnnotations(before, body), members)
    },
  }),
  deleteRoute(backends, {
    summary: 'Delete a weighted backend, but none of its members. Refused while an edge or route uses it',
    access: 'anyone',
    errors: ['ERR_BACKEND_IN_USE'],
    remove: (tx, { caller, params }) => deleteBackend(tx, caller, params.id),
  }),
]
