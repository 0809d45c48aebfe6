import type { Db } from '../../db/pool.ts'
import type { Caller } from '../../identity/caller.ts'
import { forbidden } from '../../kernel/errors.ts'
import type { Id } from '../../kernel/ids.ts'
import { isAttachedToRestriction, raiseIpPolicyRevision } from '../ip_policies/store.ts'

/**
 * To be called before any change of a policy's rules. Members keep their own allow-lists, but what an IP restriction
 * decides is for admins, and its policies' rules are what it decides. `cidrs`: every range that it is about, if it is known.
 * Resolves to false when there is no such policy.
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

/** What `permitRuleChange` leaves to admins, for `adminsOnly` of the routes that call it. */
export const changeAttached = 'change the rules of a policy that is attached to an IP restriction'

/** Holds only as long as the policy's row is held, as it is after `beginRuleChange`. */
export async function permitRuleChange(db: Db, caller: Caller, policyId: Id<'ipp'>): Promise<void> {
  if (caller.role !== 'admin' && (await isAttachedToRestriction(db, caller, policyId)))
    throw forbidden('This IP policy is attached to an IP restriction: only an admin may change its rules.')
}
