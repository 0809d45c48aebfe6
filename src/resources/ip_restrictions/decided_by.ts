import { toId, type Uuid } from '../../kernel/ids.ts'

type Ids = { restrictionId: Uuid; policyId?: Uuid | null; ruleId?: Uuid | null }

/** References to the restriction, policy and rule behind a decision. Policy and rule are null when no rule matched. */
export function decidedBy({ restrictionId, policyId, ruleId }: Ids, uri: (path: string) => string) {
  const ref = <P extends 'ipx' | 'ipp' | 'ipr'>(prefix: P, path: string, uuid: Uuid) => {
    const id = toId(prefix, uuid)
    return { id, uri: uri(`/${path}/${id}`) }
  }
  return {
    ip_restriction: ref('ipx', 'ip_restrictions', restrictionId),
    ip_policy: policyId ? ref('ipp', 'ip_policies', policyId) : null,
    ip_policy_rule: ruleId ? ref('ipr', 'ip_policy_rules', ruleId) : null,
  }
}
