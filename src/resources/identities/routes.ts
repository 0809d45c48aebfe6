import { invalidField } from '../../kernel/errors.ts'
import { toId, toUuid } from '../../kernel/ids.ts'
import { recordChange } from '../../operations/audit.ts'
import { createRoute, deleteRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { lineageOfNew } from '../api_keys/rules.ts'
import { deleteApiKey, findApiKey } from '../api_keys/store.ts'
import { stableApiKeyFields, toApiKey } from '../api_keys/view.ts'
import { endAccess, refuseLimitedKey } from './rules.ts'
import { Identity, IdentityCreate, IdentityQuery } from './schema.ts'
import {
  deleteIdentity,
  findIdentity,
  type IdentityRow,
  insertIdentity,
  insertIdentityLineage,
  listIdentities,
} from './store.ts'
import { stableIdentityFields, toIdentity } from './view.ts'

const identities: Resource<{ id: 'idn' }, IdentityRow, typeof Identity> = {
  name: 'identities',
  quota: 'identities',
  path: '/identities',
  params: { id: 'idn' },
  managesKeys: true,
  shape: Identity,
  view: toIdentity,
  find: findIdentity,
  stableFields: stableIdentityFields,
}

export const identityRoutes = [
  createRoute(identities, {
    summary: 'Link an identity of a sign-in provider to an existing user. The person then signs in as that user',
    access: 'admin',
    body: IdentityCreate,
    errors: ['ERR_IDENTITY_TAKEN', 'ERR_TOO_MANY'],
    async insert(tx, { caller, body: { owner_id, issuer, subject } }) {
      const { lineage, parent } = await lineageOfNew(tx, caller)
      refuseLimitedKey('identities.create', parent)
      const created_by_key_id = toUuid(caller.apiKeyId)
      const row = await insertIdentity(tx, caller, { owner_id: toUuid(owner_id), issuer, subject, created_by_key_id })
      if (!row) throw invalidField('owner_id', 'must be a user of this account')
      await insertIdentityLineage(tx, caller, row.id, lineage)
      return row
    },
  }),
  getRoute(identities, { access: 'admin' }),
  listRoute(identities, { access: 'admin', field: 'identities', query: IdentityQuery, select: listIdentities }),
  deleteRoute(identities, {
    summary: 'Delete an identity. Its sessions end, and its next sign-in is a first one',
    access: 'admin',
    async remove(tx, { caller, origin, params, uri }, before) {
      await endAccess(tx, origin, before)
      const key = before.api_key_id && (await findApiKey(tx, caller, toId('ak', before.api_key_id), true))
      if (key) {
        const shown = stableApiKeyFields(toApiKey(key, uri))
        await deleteApiKey(tx, caller, toId('ak', key.id))
        await recordChange(tx, origin, { resourceId: toId('ak', key.id), before: shown, after: null })
      }
      await deleteIdentity(tx, caller, params.id)
    },
  }),
]
