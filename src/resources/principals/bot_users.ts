import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { deleteKeysOf } from './rules.ts'
import { BotUser, BotUserCreate, BotUserQuery, BotUserUpdate } from './schema.ts'
import {
  deletePrincipal,
  findPrincipal,
  insertPrincipal,
  listPrincipals,
  type PrincipalRow,
  updatePrincipal,
} from './store.ts'
import { toBotUser } from './view.ts'

const bots: Resource<{ id: 'bot' }, PrincipalRow, typeof BotUser> = {
  name: 'bot_users',
  quota: 'bot_users',
  path: '/bot_users',
  params: { id: 'bot' },
  managesKeys: true,
  shape: BotUser,
  view: toBotUser,
  find: (db, caller, id, lock) => findPrincipal(db, caller, 'bot', id, lock),
}

export const botUserRoutes = [
  createRoute(bots, {
    access: 'admin',
    body: BotUserCreate,
    insert: (tx, { caller, body: { name, active = true } }) =>
      insertPrincipal(tx, caller, { kind: 'bot', name, email: null, role: 'member', active }),
  }),
  getRoute(bots, { access: 'anyone' }),
  listRoute(bots, {
    access: 'anyone',
    field: 'bot_users',
    query: BotUserQuery,
    select: (db, caller, query) => listPrincipals(db, caller, 'bot', query),
  }),
  updateRoute(bots, {
    access: 'admin',
    body: BotUserUpdate,
    apply: (tx, { caller, body: { id: _, ...sent } }, before) => updatePrincipal(tx, caller, { ...before, ...sent }),
  }),
  deleteRoute(bots, {
    summary: 'Delete a bot and its API keys',
    access: 'admin',
    async remove(tx, { caller, origin, params, uri }, before) {
      await deleteKeysOf(tx, caller, origin, before, uri)
      await deletePrincipal(tx, caller, params.id)
    },
  }),
]
