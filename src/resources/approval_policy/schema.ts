import { Type } from 'typebox'
import { Closed, type Static } from '../../http/wire.ts'
import { approvalKinds } from '../../kernel/approval.ts'

const kinds = Type.Array(
  Type.Unsafe<(typeof approvalKinds)[number]>({ type: 'string', enum: [...approvalKinds], examples: ['ip_policies'] }),
  {
    maxItems: approvalKinds.length,
    uniqueItems: true,
    examples: [['ip_policies', 'ip_restrictions']],
    description:
      'The kinds of resources whose changes need the approval of another admin. `edges` has routes and modules, and `ip_policies` has their rules. While there is any, changes of users, identities and this policy need approval too. Empty: no change needs approval.',
  },
)

export const ApprovalPolicy = Closed({ required_for: kinds }, { title: 'ApprovalPolicy' })
export type ApprovalPolicy = Static<typeof ApprovalPolicy>
export const ApprovalPolicyReplace = Closed({ required_for: kinds })
