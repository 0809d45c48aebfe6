import type { Db } from '../../db/pool.ts'
import { backendStatuses } from '../../health/shown.ts'
import type { Caller } from '../../identity/caller.ts'
import { invalidField } from '../../kernel/errors.ts'
import { type Id, isId, toId, type Uuid } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { FailoverBackend, FailoverBackendCreate, FailoverBackendQuery, FailoverBackendUpdate } from './group_schema.ts'
import { type GroupRow, insertGroup, listTcpUsers, updateGroup } from './group_store.ts'
import { healthRoute } from './health.ts'
import { deleteBackend, findBackend, holdBackends, listBackends } from './store.ts'
import { toFailoverBackend } from './view.ts'

const backends: Resource<{ id: 'bkdfo' }, GroupRow, typeof FailoverBackend> = {
  name: 'failover_backends',
  quota: 'backends',
  path: '/backends/failover',
  params: { id: 'bkdfo' },
  shape: FailoverBackend,
  view: toFailoverBackend,
  statuses: backendStatuses,
  find: findBackend,
  records: ({ id }) => [`failover.${toId('bkdfo', id)}`],
}

type MemberIds = readonly Id<'bkdst' | 'bkdhr'>[]
const membersIn = (ids: MemberIds) => ids.map((id) => ({ id, weight: null }))
const place = (_: string, index: number) => `backends[${index}]`
const responseIn = (ids: MemberIds) => ids.findIndex((id) => isId('bkdhr', id))

/** An HTTP response always answers, so members after it would never be used. */
function check({ backends: ids = [] }: { backends?: MemberIds }): void {
  const index = responseIn(ids)
  if (index >= 0 && index < ids.length - 1)
    throw invalidField(place('', index), 'must be last, because an HTTP response backend always answers')
}

/** The reverse case is checked when a TCP edge gets its backend; that request waits for our lock. */
async function refuseResponseForTcp(tx: Db, caller: Caller, id: Uuid, ids: MemberIds): Promise<void> {
  const index = responseIn(ids)
  if (index < 0) return
  const users = await listTcpUsers(tx, caller, id)
  if (users.length === 0) return
  const named = users.map((user) => toId('edgtcp', user.id)).join(', ')
  throw invalidField(
    place('', index),
    `must not be an HTTP response backend while TCP edges use this backend (${named})`,
  )
}

export const failoverBackendRoutes = [
  createRoute(backends, {
    access: 'anyone',
    body: FailoverBackendCreate,
    check,
    async insert(tx, { caller, body }) {
      await holdBackends(tx, caller, body.backends, place)
      return insertGroup(tx, caller, 'failover', newAnnotations(body), membersIn(body.backends))
    },
  }),
  getRoute(backends, { access: 'anyone' }),
  healthRoute(backends),
  listRoute(backends, {
    access: 'anyone',
    field: 'backends',
    query: FailoverBackendQuery,
    select: (db, caller, query) => listBackends<GroupRow>(db, caller, 'failover', query),
  }),
  updateRoute(backends, {
    access: 'anyone',
    body: FailoverBackendUpdate,
    check,
    async apply(tx, { caller, body }, before) {
      if (body.backends) {
        await holdBackends(tx, caller, body.backends, place)
        await refuseResponseForTcp(tx, caller, before.id, body.backends)
      }
      const members = body.backends && membersIn(body.backends)
      return updateGroup(tx, caller, 'failover', before.id, patchedAnnotations(before, body), members)
    },
  }),
  deleteRoute(backends, {
    summary: 'Delete a failover backend, but none of its members. Refused while an edge or route uses it',
    access: 'anyone',
    errors: ['ERR_BACKEND_IN_USE'],
    remove: (tx, { caller, params }) => deleteBackend(tx, caller, params.id),
  }),
]
