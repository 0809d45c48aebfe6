import { Type } from 'typebox'
import { BeforeId, Closed, Id, ListOf, PageParameters, type Static, Text, Timestamp } from '../../http/wire.ts'

const Fields = Type.Unsafe<Record<string, unknown> | null>({ type: ['object', 'null'] })
const OrNull = (description: string) => Type.Unsafe<string | null>({ type: ['string', 'null'], description })

export const AuditEvent = Closed(
  {
    id: Id('ev'),
    created_at: Timestamp,
    operation: Type.String({ description: 'Which operation made the change, such as api_keys.create.' }),
    operation_id: Id('op'),
    owner_id: OrNull('The user or bot who did it; null for a command on the server.'),
    api_key_id: OrNull('The key that was used.'),
    dashboard_session_id: OrNull('The session of that key, when it was done in the dashboard.'),
    source_ip: OrNull('The address it came from.'),
    resource_id: Type.String({ description: 'What was changed.' }),
    before: Fields,
    after: Fields,
  },
  { title: 'AuditEvent' },
)
export type AuditEvent = Static<typeof AuditEvent>

export const AuditEventQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('ev'),
  resource_id: Type.Optional(Text(100, 'Only changes of this resource.')),
  owner_id: Type.Optional(Id('usr', 'bot')),
  operation: Type.Optional(Text(100, 'Only this operation, such as api_keys.delete.')),
})
export const AuditEventList = ListOf('audit_events', AuditEvent, 'AuditEventList')
