import { toId, type Uuid } from '../../kernel/ids.ts'

type Ids = { restrictionId: Uuid; policyId?: Uuid | null; ruleId?: Uuid | null }

type UriOf = (path: string) => string

const paths = { ipx: 'ip_restrictions', ipp: 'ip_policies', ipr: 'ip_policy_rules' } as const
export function refTo<P extends keyof typeof paths>(prefix: P, uuid: Uuid, uri: UriOf) {
  const id = toId(prefix, uuid)
  return { id, uri: uri(`/${paths[prefix]}/${id}`) }
}

/** References to the deciding restriction, policy and rule. Policy and rule are null if no rule matched. */
export const decidedBy = ({ restrictionId, policyId, ruleId }: Ids, uri: UriOf) => ({
  ip_restriction: refTo('ipx', restrictionId, uri),
  ip_policy: policyId ? refTo('ipp', policyId, uri) : null,
  ip_policy_rule: ruleId ? refTo('ipr', ruleId, uri) : null,
})
