import { Type } from 'typebox'
import { raisePolicyRevision, refuseSelfLockout } from '../access/self_lockout.ts'
import { Closed } from '../http/wire.ts'
import type { Guard } from './resource.ts'

/** Query parameters of every change that can decide about the caller's own address. */
export const LockoutQuery = Closed({
  allow_self_lockout: Type.Optional(
    Type.Boolean({
      description:
        'Make the change even if the API, or the dashboard session in use, then refuses the address that this request comes from.',
    }),
  ),
})

/**
 * Goes around every change of restrictions, their policies and rules. The account's revision is raised first: it holds
 * the account's row, so that such changes of one account happen one after another and each is judged by what the one
 * before left behind.
 */
export const changingDecisions: Guard = async (tx, { caller, origin, query, clock }, change) => {
  await raisePolicyRevision(tx, caller)
  const result = await change()
  if (query.allow_self_lockout !== true) await refuseSelfLockout(tx, caller, origin.sourceIp, clock())
  return result
}
