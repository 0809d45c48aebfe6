import type { Caller } from '../../auth/caller.ts'
import { hashToken, newToken } from '../../auth/token.ts'
import type { Db } from '../../db/pool.ts'
import { forbidden, invalidField } from '../../kernel/errors.ts'
import { toId } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../annotations.ts'
import { ownerId } from '../principals/view.ts'
import { resource } from '../resource.ts'
import { ApiKey, ApiKeyCreate, ApiKeyQuery, ApiKeyUpdate } from './schema.ts'
import { type ApiKeyRow, deleteApiKey, findApiKey, insertApiKey, listApiKeys, updateApiKey } from './store.ts'
import { toApiKey } from './view.ts'

const apiKeys = resource({
  name: 'api_keys',
  prefix: 'ak',
  path: '/api_keys',
  shape: ApiKey,
  view: toApiKey,
  find: findApiKey as (...args: Parameters<typeof findApiKey>) => Promise<KeyWithToken | undefined>,
})
/** The token is there between the insert and the response to it, and is kept nowhere. */
type KeyWithToken = ApiKeyRow & { token?: string }

/** Everyone changes their own keys, admins any. */
function mustBeOwn(_tx: Db, caller: Caller, key: ApiKeyRow): void {
  if (caller.role === 'admin' || ownerId(key.owner_kind, key.owner_id) === caller.ownerId) return
  throw forbidden("Only an admin may change another owner's API key.")
}

export const apiKeyRoutes = [
  apiKeys.create({
    summary: 'Create an API key. Its token is in this response and never again',
    access: 'anyone',
    body: ApiKeyCreate,
    errors: ['ERR_FORBIDDEN'],
    async insert(tx, { caller, body }) {
      const owner = body.owner_id ?? caller.ownerId
      if (owner !== caller.ownerId && caller.role !== 'admin')
        throw forbidden('Only an admin may create a key for another owner.')
      const token = newToken()
      const row = await insertApiKey(tx, caller, {
        ownerId: owner,
        tokenHash: hashToken(token),
        ...newAnnotations(body),
      })
      if (!row) throw invalidField('owner_id', 'must be an active user or bot of this account')
      return { ...row, token }
    },
    toldOnce: { field: 'token', of: ({ token }) => token },
  }),
  apiKeys.get(),
  apiKeys.list({ field: 'keys', query: ApiKeyQuery, select: listApiKeys }),
  apiKeys.update({
    access: 'anyone',
    body: ApiKeyUpdate,
    errors: ['ERR_FORBIDDEN'],
    permit: mustBeOwn,
    apply: (tx, { caller, body }, before) =>
      updateApiKey(tx, caller, toId('ak', before.id), patchedAnnotations(before, body)),
  }),
  apiKeys.delete({
    summary: 'Delete an API key. The next request with its token is refused, on every process',
    access: 'anyone',
    errors: ['ERR_FORBIDDEN'],
    permit: mustBeOwn,
    remove: (tx, { caller, params }) => deleteApiKey(tx, caller, params.id),
  }),
]
