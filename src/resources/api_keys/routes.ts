import { type Handling, isSet } from '../../http/route.ts'
import { hashToken, newToken } from '../../identity/token.ts'
import { forbidden, invalidField, Refusal } from '../../kernel/errors.ts'
import { canonicalExpiry } from '../../kernel/time.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { actionRoute, createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import {
  checkScopes,
  createBelow,
  createBelowAtOnce,
  expiryOfNew,
  grantOf,
  grantWith,
  mayChange,
  mayRotate,
  mayUpdate,
  revokeDescendants,
  visibleTo,
} from './rules.ts'
import { ApiKey, ApiKeyCreate, ApiKeyDeleteQuery, ApiKeyQuery, ApiKeyRotate, ApiKeyUpdate } from './schema.ts'
import { type ApiKeyRow, deleteApiKey, findApiKey, listApiKeys, rotateApiKey, updateApiKey } from './store.ts'
import { stableApiKeyFields, toApiKey } from './view.ts'

/** The token exists only between the change and its response. */
type KeyWithToken = ApiKeyRow & { token?: string }

const apiKeys: Resource<{ id: 'ak' }, KeyWithToken, typeof ApiKey> = {
  name: 'api_keys',
  quota: 'api_keys',
  path: '/api_keys',
  params: { id: 'ak' },
  managesKeys: true,
  shape: ApiKey,
  view: toApiKey,
  async find(db, caller, id, lock) {
    const key = await findApiKey(db, caller, id, lock)
    return key && visibleTo(caller, key)
  },
  secret: 'token',
  stableFields: stableApiKeyFields,
}

const dayInSeconds = 24 * 60 * 60

function newKey({ caller, body, clock }: Pick<Handling<object, object, ApiKeyCreate>, 'caller' | 'body' | 'clock'>) {
  const expires_at = expiryOfNew(caller, canonicalExpiry(body.expires_at))
  if (expires_at && Date.parse(expires_at) <= clock()) throw invalidField('expires_at', 'must be in the future')
  const ownerId = body.owner_id ?? caller.ownerId
  if (ownerId !== caller.ownerId && caller.role !== 'admin')
    throw forbidden('Only admins can create a key for another owner.')
  const token = newToken()
  return { ownerId, token, tokenHash: hashToken(token), expires_at, ...newAnnotations(body) }
}

export const apiKeyRoutes = [
  createRoute(apiKeys, {
    summary: 'Create an API key. Its token is returned only in this response',
    access: 'anyone',
    body: ApiKeyCreate,
    check: checkScopes,
    adminsOnly: 'create a key for another owner',
    errors: ['ERR_TOO_MANY'],
    async insertAtOnce(request) {
      const { token, ...key } = newKey(request)
      const row = await createBelowAtOnce(request, request.body, key)
      return row && { ...row, token }
    },
    async insert(tx, request) {
      const { token, ...key } = newKey(request)
      return { ...(await createBelow(tx, request.caller, request.body, key)), token }
    },
  }),
  getRoute(apiKeys, { access: 'anyone' }),
  listRoute(apiKeys, {
    access: 'anyone',
    field: 'keys',
    query: ApiKeyQuery,
    async select(db, caller, query) {
      const keys = await listApiKeys(db, caller, query)
      return keys.map((key) => visibleTo(caller, key))
    },
  }),
  updateRoute(apiKeys, {
    access: 'anyone',
    body: ApiKeyUpdate,
    check: checkScopes,
    adminsOnly: "change another owner's key, or extend or clear expires_at",
    permit: mayUpdate,
    async apply(tx, { caller, params, body }, before) {
      // A past expiry is allowed: it ends the key now and keeps it in the list.
      const expires_at = body.expires_at === undefined ? before.expires_at : canonicalExpiry(body.expires_at)
      const { scopes, allowedCidrs } = grantWith(body, grantOf(before))
      const after = { ...patchedAnnotations(before, body), expires_at, scopes, allowed_cidrs: allowedCidrs }
      await updateApiKey(tx, caller, params.id, after)
      return { ...before, ...after }
    },
  }),
  actionRoute(apiKeys, {
    verb: 'rotate',
    summary:
      'Rotate an API key. The new token is returned only in this response, and the old token keeps working until the overlap ends',
    access: 'anyone',
    body: ApiKeyRotate,
    adminsOnly: "rotate another owner's key",
    errors: ['ERR_API_KEY_EXPIRED'],
    permit: mayRotate,
    async apply(tx, { caller, params, body: { overlap_seconds = dayInSeconds } }, before) {
      const token = newToken()
      const rotated = await rotateApiKey(tx, caller, params.id, {
        tokenHash: hashToken(token),
        overlapSeconds: overlap_seconds,
      })
      if (!rotated)
        throw new Refusal(
          'ERR_API_KEY_EXPIRED',
          'This API key has expired. Set a new expires_at or create another key.',
        )
      const after = await findApiKey(tx, caller, params.id, false)
      return { ...(after ?? before), token }
    },
    audited: ({ previous_token }) => ({ previous_token_expires_at: previous_token?.expires_at ?? null }),
  }),
  deleteRoute(apiKeys, {
    summary: 'Delete an API key. Its token stops working immediately, on every process',
    access: 'anyone',
    query: ApiKeyDeleteQuery,
    adminsOnly: "delete another owner's key",
    errors: ['ERR_TOO_MANY'],
    permit: mayChange,
    async remove(tx, request) {
      const { caller, params, query } = request
      if (isSet(query, 'revoke_descendants')) await revokeDescendants(tx, request, params.id)
      await deleteApiKey(tx, caller, params.id)
    },
  }),
]
