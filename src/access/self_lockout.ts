import { type Db, maybeOne, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { type Caller, restrictionTypesFor } from '../identity/caller.ts'
import { rfc3339 } from '../kernel/clock.ts'
import { Refusal } from '../kernel/errors.ts'
import { toId, type Uuid } from '../kernel/ids.ts'

export const raisePolicyRevision = (tx: Db, { accountId }: Pick<Caller, 'accountId'>): Promise<void> =>
  run(tx, sql`update accounts set policy_revision = policy_revision + 1 where id = ${accountId}`)

export async function refuseSelfLockout(
  tx: Db,
  caller: Caller,
  sourceIp: string | undefined,
  now: number,
): Promise<void> {
  const matching = (action: 'allow' | 'deny') => sql`
    exists (
      select from ip_restriction_policies a
        join ip_policy_rules x on x.account_id = a.account_id and x.ip_policy_id = a.ip_policy_id
      where a.account_id = r.account_id and a.ip_restriction_id = r.id and x.action = ${action}
        and x.cidr >>= ${sourceIp ?? null}::inet and (x.expires_at is null or x.expires_at > ${rfc3339(now)}))`
  const refusing = await maybeOne<{ id: Uuid; type: string }>(
    tx,
    sql`
    select r.id, r.type from ip_restrictions r
    where r.account_id = ${caller.accountId} and r.type = any(${restrictionTypesFor(caller)}) and r.enforced
      and (not ${matching('allow')} or ${matching('deny')})
    limit 1`,
  )
  if (!refusing) return
  const id = toId('ipx', refusing.id)
  const you = sourceIp ?? 'your address, which could not be read,'
  throw new Refusal(
    'ERR_SELF_LOCKOUT',
    `After this change, ${id} would block ${you} from ${refusing.type === 'api' ? 'this API' : 'the dashboard'}. Allow your own address first, or repeat the request with allow_self_lockout=true.`,
    { details: { ip_restriction_id: id, ...(sourceIp && { source_ip: sourceIp }) } },
  )
}
