import { systemClock } from '../../kernel/clock.ts'
import { toId } from '../../kernel/ids.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import type { IpPolicyRule } from './schema.ts'
import type { IpPolicyRuleRow } from './store.ts'

export function toIpPolicyRule(row: IpPolicyRuleRow, uri: (path: string) => string): IpPolicyRule {
  const id = toId('ipr', row.id)
  const policyId = toId('ipp', row.ip_policy_id)
  return {
    id,
    uri: uri(`/ip_policy_rules/${id}`),
    created_at: row.created_at,
    ...shownAnnotations(row),
    cidr: canonicalCidr(row.cidr),
    action: row.action,
    ip_policy: { id: policyId, uri: uri(`/ip_policies/${policyId}`) },
    ...(row.expires_at !== null && {
      expires_at: row.expires_at,
      expired: Date.parse(row.expires_at) <= systemClock(),
    }),
  }
}
