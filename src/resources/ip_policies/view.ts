import { toId } from '../../kernel/ids.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import type { IpPolicy } from './schema.ts'
import type { IpPolicyRow } from './store.ts'

export function toIpPolicy(row: IpPolicyRow, uri: (path: string) => string): IpPolicy {
  const id = toId('ipp', row.id)
  return { id, uri: uri(`/ip_policies/${id}`), created_at: row.created_at, ...shownAnnotations(row) }
}
