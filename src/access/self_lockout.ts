import { type Db, later } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { type Caller, restrictionTypesFor } from '../identity/caller.ts'
import { Refusal } from '../kernel/errors.ts'
import { toId } from '../kernel/ids.ts'
import { parseAddress } from '../kernel/ip/address.ts'
import { loadEnforcedAbout } from './policies.ts'
import { decideEach, refusalIn } from './refusal.ts'

export const raisePolicyRevision = (tx: Db, { accountId }: Pick<Caller, 'accountId'>): Promise<void> =>
  later(tx, sql`update accounts set policy_revision = policy_revision + 1 where id = ${accountId}`)

export async function refuseSelfLockout(
  tx: Db,
  caller: Caller,
  sourceIp: string | undefined,
  now: number,
): Promise<void> {
  const address = sourceIp === undefined ? undefined : parseAddress(sourceIp)
  // Inside the transaction, so that it sees the changed state.
  const deciders = await loadEnforcedAbout(tx, caller.accountId, restrictionTypesFor(caller), address, now)
  const refusing = refusalIn(decideEach(deciders, address))
  if (!refusing) return
  const id = toId('ipx', refusing.id)
  const you = sourceIp ?? 'your address, which could not be read,'
  throw new Refusal(
    'ERR_SELF_LOCKOUT',
    `After this change, ${id} would block ${you} from ${refusing.type === 'api' ? 'this API' : 'the dashboard'}. Allow your own address first, or repeat the request with allow_self_lockout=true.`,
    { details: { ip_restriction_id: id, ...(sourceIp && { source_ip: sourceIp }) } },
  )
}
