import { Type } from 'typebox'
import { raisePolicyRevision, refuseSelfLockout } from '../access/self_lockout.ts'
import { isSet } from '../http/route.ts'
import { Closed } from '../http/wire.ts'
import type { Guard } from './resource.ts'

/** Query parameters of every change that can block the caller's own address. */
export const LockoutQuery = Closed({
  allow_self_lockout: Type.Optional(
    Type.Boolean({
      description:
        'Make the change even if it blocks the address of this request from the API, or from the dashboard session in use.',
    }),
  ),
})

/**
 * Around every change to restrictions, their policies and rules. Raising the revision first locks the account's row, so
 * such changes run one after another and each is checked against the result of the one before.
 */
export const decisionGuard: Guard = {
  query: LockoutQuery,
  async around(tx, { caller, origin, query, clock }, change) {
    await raisePolicyRevision(tx, caller)
    const result = await change()
    if (!isSet(query, 'allow_self_lockout')) await refuseSelfLockout(tx, caller, origin.sourceIp, clock())
    return result
  },
}
