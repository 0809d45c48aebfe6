import { transaction } from '../../db/transaction.ts'
import { checkIfMatch, etagOf } from '../../http/preconditions.ts'
import { type Route, route } from '../../http/route.ts'
import { Refusal } from '../../kernel/errors.ts'
import { toId } from '../../kernel/ids.ts'
import { record } from '../../operations/change.ts'
import { holdersOfKeyOf } from '../api_keys/store.ts'
import { ApprovalPolicy, ApprovalPolicyReplace } from './schema.ts'
import { findRequiredFor, hasIndependentAdmin, setRequiredFor } from './store.ts'

const path = '/approval_policy'

export const approvalPolicyRoutes: readonly Route[] = [
  route({
    operation: 'approval_policy.get',
    summary: 'Get which changes need the approval of another admin',
    method: 'GET',
    path,
    success: 200,
    response: ApprovalPolicy,
    tagged: true,
    access: 'anyone',
    async handle({ db, caller }) {
      const body = { required_for: await findRequiredFor(db, caller, false) }
      return { body, etag: etagOf(body) }
    },
  }),
  route({
    operation: 'approval_policy.replace',
    summary:
      'Replace which changes need the approval of another admin. While any do, this one does too: it becomes a change set',
    method: 'PUT',
    path,
    body: ApprovalPolicyReplace,
    success: 200,
    response: ApprovalPolicy,
    tagged: true,
    access: 'admin',
    errors: ['ERR_NO_APPROVER', 'ERR_PRECONDITION_FAILED'],
    handle: ({ db, caller, origin, ifMatch, body: { required_for } }) =>
      transaction(db, async (tx) => {
        const before = { required_for: await findRequiredFor(tx, caller, true) }
        checkIfMatch(ifMatch, before)
        const after = { required_for: required_for.toSorted() }
        if (after.required_for.length > 0 && !(await hasIndependentAdmin(tx, caller, await holdersOfKeyOf(tx, caller))))
          throw new Refusal(
            'ERR_NO_APPROVER',
            'No other admin could approve changes. There has to be a second active admin, who has signed in with an identity provider or has a key that you did not create.',
          )
        await setRequiredFor(tx, caller, after.required_for)
        await record(tx, origin, { resourceId: toId('ac', caller.accountId), before, after })
        return { body: after, etag: etagOf(after) }
      }),
  }),
]
