import { toId } from '../../kernel/ids.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import type { IpRestriction } from './schema.ts'
import type { IpRestrictionRow } from './store.ts'

export function toIpRestriction(row: IpRestrictionRow, uri: (path: string) => string): IpRestriction {
  const id = toId('ipx', row.id)
  return {
    id,
    uri: uri(`/ip_restrictions/${id}`),
    created_at: row.created_at,
    ...shownAnnotations(row),
    enforced: row.enforced,
    type: row.type,
    ip_policies: row.ip_policy_ids.map((uuid) => {
      const policyId = toId('ipp', uuid)
      return { id: policyId, uri: uri(`/ip_policies/${policyId}`) }
    }),
  }
}
