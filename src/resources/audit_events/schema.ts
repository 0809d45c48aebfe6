import { Type } from 'typebox'
import { BeforeId, Closed, Id, ListOf, PageParameters, type Static, Text, Timestamp } from '../../http/wire.ts'

const Fields = Type.Unsafe<Record<string, unknown> | null>({ type: ['object', 'null'] })
const OrNull = (description: string) => Type.Unsafe<string | null>({ type: ['string', 'null'], description })

export const AuditEvent = Closed(
  {
    id: Id('ev'),
    created_at: Timestamp,
    operation: Type.String({ description: 'The operation that made the change, such as api_keys.create.' }),
    operation_id: Id('op'),
    owner_id: OrNull('The user or bot that made the change. Null for a command on the server.'),
    api_key_id: OrNull('The key that was used.'),
    dashboard_session_id: OrNull('The dashboard session, if the change was made in the dashboard.'),
    source_ip: OrNull('The source address.'),
    resource_id: Type.String({ description: 'The resource that was changed.' }),
    before: Fields,
    after: Fields,
  },
  { title: 'AuditEvent' },
)
export type AuditEvent = Static<typeof AuditEvent>

export const AuditEventQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('ev'),
  resource_id: Type.Optional(Text(100, 'Return only changes to this resource.')),
  owner_id: Type.Optional(Id('usr', 'bot')),
  operation: Type.Optional(Text(100, 'Return only changes by this operation, such as api_keys.delete.')),
})
export const AuditEventList = ListOf('audit_events', AuditEvent)
