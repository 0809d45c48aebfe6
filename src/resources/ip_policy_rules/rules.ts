import type { Db } from '../../db/pool.ts'
import type { Caller } from '../../identity/caller.ts'
import { forbidden } from '../../kernel/errors.ts'
import type { Id } from '../../kernel/ids.ts'
import { isAttachedToRestriction, raiseIpPolicyRevision } from '../ip_policies/store.ts'

/**
 * Call it before any change of a policy's rules. Members maintain their own allow-lists, but rules of an IP
 * restriction's policies are reserved for admins, because they decide what it refuses. `cidrs`: all affected ranges, if
 * known. Resolves to false if there is no such policy.
 */
export async function beginRuleChange(
  tx: Db,
  caller: Caller,
  policyId: Id<'ipp'>,
  cidrs?: readonly string[],
): Promise<boolean> {
  if (!(await raiseIpPolicyRevision(tx, caller, policyId, cidrs))) return false
  await permitRuleChange(tx, caller, policyId)
  return true
}

/** What `permitRuleChange` reserves for admins, for `adminsOnly` of routes. */
export const changeAttached = 'change the rules of a policy that is attached to an IP restriction'

/** Valid only while the policy's row is locked, as it is after `beginRuleChange`. */
export async function permitRuleChange(db: Db, caller: Caller, policyId: Id<'ipp'>): Promise<void> {
  if (caller.role !== 'admin' && (await isAttachedToRestriction(db, caller, policyId)))
    throw forbidden('This IP policy is attached to an IP restriction: only an admin may change its rules.')
}
