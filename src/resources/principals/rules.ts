import type { Db } from '../../db/pool.ts'
import type { Caller } from '../../identity/caller.ts'
import type { Origin } from '../../identity/origin.ts'
import { Refusal } from '../../kernel/errors.ts'
import { recordChange } from '../../operations/audit.ts'
import { deleteApiKeysOf } from '../api_keys/store.ts'
import { stableApiKeyFields, toApiKey } from '../api_keys/view.ts'
import { lockActiveAdmins, type PrincipalRow } from './store.ts'
import { ownerId } from './view.ts'

/** Without an active admin, no one could repair the account through the API. Call it before the change. */
export async function keepAnAdmin(
  tx: Db,
  caller: Pick<Caller, 'accountId'>,
  before: PrincipalRow,
  after: Pick<PrincipalRow, 'role' | 'active'> | null,
): Promise<void> {
  const isAdmin = (user: typeof after) => user?.role === 'admin' && user.active
  if (!isAdmin(before) || isAdmin(after)) return
  const admins = await lockActiveAdmins(tx, caller)
  if (admins.some(({ id }) => id !== before.id)) return
  throw new Refusal('ERR_LAST_ADMIN', 'This is the last active admin of the account. Make another user an admin first.')
}

/** Deletes the keys of a deleted user or bot, with an audit event for each. */
export async function deleteKeysOf(
  tx: Db,
  caller: Caller,
  origin: Origin,
  owner: PrincipalRow,
  uri: (path: string) => string,
): Promise<void> {
  for (const row of await deleteApiKeysOf(tx, caller, ownerId(owner.kind, owner.id))) {
    const key = stableApiKeyFields(toApiKey(row, uri))
    await recordChange(tx, origin, { resourceId: key.id, before: key, after: null })
  }
}
