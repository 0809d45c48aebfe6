import { Type } from 'typebox'
import { BeforeId, Closed, Id, ListOf, PageParameters, type Static, Text, Timestamp } from '../../http/wire.ts'
import { type Id as IdText, idPrefixes } from '../../kernel/ids.ts'

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

const Time = (description: string) =>
  Type.Optional(
    Type.String({
      format: 'date-time',
      'x-maxBytes': 40,
      'x-moment': true,
      examples: ['2026-11-01T00:00:00Z'],
      description,
    }),
  )

export const AuditEventQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('ev'),
  order: Type.Optional(
    Type.Unsafe<'newest' | 'committed'>({
      type: 'string',
      enum: ['newest', 'committed'],
      description:
        'newest: the newest first, by id. committed: oldest first, in an order in which no event appears before one that was already returned, so that reading on with after_id misses none. Default: newest.',
    }),
  ),
  after_id: Type.Optional(
    Type.Unsafe<IdText<'ev'>>({
      ...Id('ev'),
      description: 'With order=committed: continue after this event.',
    }),
  ),
  since: Time('Return only events from this time on (RFC 3339).'),
  until: Time('Return only events before this time (RFC 3339).'),
  resource_id: Type.Optional(Text(100, 'Return only changes to this resource.')),
  resource_type: Type.Optional(
    Type.String({
      enum: Object.keys(idPrefixes),
      description: 'Return only changes to resources whose ids have this prefix, such as ak for API keys.',
    }),
  ),
  owner_id: Type.Optional(Id('usr', 'bot')),
  api_key_id: Type.Optional(Id('ak')),
  source_ip: Type.Optional(
    Type.Unsafe<string>({
      type: 'string',
      'x-cidr': true,
      'x-maxBytes': 100,
      examples: ['203.0.113.0/24'],
      description: 'Return only changes made from this address or CIDR range.',
    }),
  ),
  operation: Type.Optional(
    Text(
      100,
      'Return only changes by this operation, such as api_keys.delete, or by those that a pattern such as api_keys.* or *.delete matches.',
    ),
  ),
})
export type AuditEventQuery = Static<typeof AuditEventQuery>
export const AuditEventList = ListOf('audit_events', AuditEvent)
