import { type Db, later, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { everything, type Grant, isUnlimited } from '../../identity/grant.ts'
import type { Origin } from '../../identity/origin.ts'
import { Refusal } from '../../kernel/errors.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { recordDeletions } from '../../operations/audit.ts'
import type { IdentityRow } from './store.ts'

/** Signing in grants all rights of the user, from anywhere, so only an unlimited key may link or invite. */
export function refuseLimitedKey(operation: 'identities.create' | 'users.invitation.create', key: Grant): void {
  if (isUnlimited(key) && key.allowedCidrs.length === 0) return
  const who = operation === 'identities.create' ? 'linked' : 'invited'
  throw new Refusal(
    'ERR_SCOPE',
    `The ${who} person signs in with all rights of the user, from any address. Use an API key with the scope * and without allowed_cidrs.`,
    { details: { operation, missing: isUnlimited(key) ? 'any address' : everything } },
  )
}

/**
 * Ends the sessions of an identity and the keys that `gatehouse login` created through them. Keys that the person
 * created deliberately stay, as when a token's session ends: programs may depend on them.
 */
export async function endAccess(tx: Db, origin: Origin, { id, api_key_id }: IdentityRow): Promise<void> {
  const { accountId } = origin
  await later(tx, sql`delete from dashboard_sessions where account_id = ${accountId} and identity_id = ${id}`)
  if (!api_key_id) return
  const keys = await many<{ id: Uuid }>(
    tx,
    sql`
    with held as (
      select id from api_keys
      where account_id = ${accountId} and sign_in = 'command' and id in (
        select a.api_key_id from api_key_ancestors a
        where a.account_id = ${accountId} and a.ancestor_id = ${api_key_id})
      order by id
      for update
    )
    delete from api_keys k using held where k.account_id = ${accountId} and k.id = held.id
    returning k.id`,
  )
  await recordDeletions(
    tx,
    origin,
    keys.map((key) => ({ id: toId('ak', key.id) })),
  )
}
