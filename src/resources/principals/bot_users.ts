import { resource } from '../../operations/resource.ts'
import { deleteKeysOf } from './rules.ts'
import { BotUser, BotUserCreate, BotUserQuery, BotUserUpdate } from './schema.ts'
import { deletePrincipal, findPrincipal, insertPrincipal, listPrincipals, updatePrincipal } from './store.ts'
import { toBotUser } from './view.ts'

const bots = resource({
  name: 'bot_users',
  prefix: 'bot',
  managesKeys: true,
  path: '/bot_users',
  shape: BotUser,
  view: toBotUser,
  find: (db, caller, id, lock) => findPrincipal(db, caller, 'bot', id, lock),
})

export const botUserRoutes = [
  bots.create({
    access: 'admin',
    body: BotUserCreate,
    insert: (tx, { caller, body: { name, active = true } }) =>
      insertPrincipal(tx, caller, { kind: 'bot', name, email: null, role: 'member', active }),
  }),
  bots.get(),
  bots.list({
    field: 'bot_users',
    query: BotUserQuery,
    select: (db, caller, query) => listPrincipals(db, caller, 'bot', query),
  }),
  bots.update({
    access: 'admin',
    body: BotUserUpdate,
    apply: (tx, { caller, body: { id: _, ...sent } }, before) => updatePrincipal(tx, caller, { ...before, ...sent }),
  }),
  bots.delete({
    summary: 'Delete a bot and its API keys',
    access: 'admin',
    async remove(tx, { caller, origin, params, uri }, before) {
      await deleteKeysOf(tx, caller, origin, before, uri)
      await deletePrincipal(tx, caller, params.id)
    },
  }),
]
