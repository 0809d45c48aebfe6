import { type Api, answerOf, api, type Shapes } from '../../api/client.ts'

export type Restriction = Shapes['IpRestriction']
type Change = { enforced?: boolean; ip_policy_ids?: string[]; description?: string }
/** The person's choice after a lockout warning. */
export type Variant = { allowSelfLockout?: boolean; allowFirst?: { address: string; policyId: string } }

/** Changes a restriction, after allowing an address in one of its policies if requested. */
export async function changeRestriction(id: string, change: Change, { allowSelfLockout, allowFirst }: Variant = {}) {
  if (allowFirst) await allowAddress(allowFirst)
  return patchRestriction(api, id, change, allowSelfLockout ? { allow_self_lockout: true } : {})
}

export const patchRestriction = (on: Api, id: string, change: Change, query: { allow_self_lockout?: true } = {}) =>
  answerOf(on.PATCH('/ip_restrictions/{id}', { params: { path: { id }, query }, body: change }))

const allowAddress = ({ address, policyId }: { address: string; policyId: string }) =>
  answerOf(
    api.POST('/ip_policy_rules', {
      body: { ip_policy_id: policyId, action: 'allow', cidr: address, description: 'My address, to avoid a lockout' },
    }),
  )
