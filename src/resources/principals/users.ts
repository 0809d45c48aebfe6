import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { deleteKeysOf, keepAnAdmin } from './rules.ts'
import { User, UserCreate, UserQuery, UserUpdate } from './schema.ts'
import {
  deletePrincipal,
  findPrincipal,
  insertPrincipal,
  listPrincipals,
  lockActiveAdmins,
  type UserRow,
  updatePrincipal,
} from './store.ts'
import { stableUserFields, toUser } from './view.ts'

const users: Resource<{ id: 'usr' }, UserRow, typeof User> = {
  name: 'users',
  quota: 'users',
  path: '/users',
  params: { id: 'usr' },
  managesKeys: true,
  shape: User,
  view: toUser,
  stableFields: stableUserFields,
  async find(db, caller, id, lock) {
    // Before the user's own row: otherwise two admins who change each other would deadlock.
    if (lock) await lockActiveAdmins(db, caller)
    return findPrincipal(db, caller, 'user', id, lock)
  },
}

export const userRoutes = [
  createRoute(users, {
    access: 'admin',
    body: UserCreate,
    errors: ['ERR_EMAIL_TAKEN'],
    insert: (tx, { caller, body: { name, email, role = 'member' } }) =>
      insertPrincipal(tx, caller, { kind: 'user', name, email, role, active: true }),
  }),
  getRoute(users, { access: 'anyone' }),
  listRoute(users, {
    access: 'anyone',
    field: 'users',
    query: UserQuery,
    select: (db, caller, query) => listPrincipals(db, caller, 'user', query),
  }),
  updateRoute(users, {
    summary: 'Update a user. The last active admin stays one',
    access: 'admin',
    body: UserUpdate,
    errors: ['ERR_EMAIL_TAKEN', 'ERR_LAST_ADMIN'],
    async apply(tx, { caller, body: { id: _, ...sent } }, before) {
      const wanted = { ...before, ...sent }
      await keepAnAdmin(tx, caller, before, wanted)
      return updatePrincipal(tx, caller, wanted)
    },
  }),
  deleteRoute(users, {
    summary: 'Delete a user and their API keys',
    access: 'admin',
    errors: ['ERR_LAST_ADMIN'],
    async remove(tx, { caller, origin, params, uri }, before) {
      await keepAnAdmin(tx, caller, before, null)
      await deleteKeysOf(tx, caller, origin, before, uri)
      await deletePrincipal(tx, caller, params.id)
    },
  }),
]
