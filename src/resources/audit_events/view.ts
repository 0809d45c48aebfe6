import { toId, type Uuid } from '../../kernel/ids.ts'
import { canonicalAddress } from '../../kernel/ip/address.ts'
import type { AuditEvent } from './schema.ts'

export type AuditEventRow = Omit<AuditEvent, 'id'> & { id: Uuid }

export const toAuditEvent = (row: AuditEventRow): AuditEvent => ({
  ...row,
  id: toId('ev', row.id),
  source_ip: row.source_ip && canonicalAddress(row.source_ip),
})
