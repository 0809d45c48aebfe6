import { Type } from 'typebox'
import { StatusShown } from '../../health/schema.ts'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Id,
  ListOf,
  OperationPattern,
  PageParameters,
  PathId,
  ShownOnce,
  type Static,
  Text,
  Timestamp,
  TimestampOrNull,
  Uri,
  Volatile,
} from '../../http/wire.ts'

const formats = ['standard', 'slack', 'email'] as const
export type DestinationFormat = (typeof formats)[number]
const Format = Type.Unsafe<DestinationFormat>({
  type: 'string',
  enum: [...formats],
  description:
    'standard: the audit event as JSON, signed. slack: a message for people, as the incoming webhooks of Slack, Mattermost and others take it. email: a message to the address of a mailto: URL, for alerts only, if the operator has a mail server.',
})

const fields = {
  format: Type.Optional({ ...Format, 'x-default': 'standard', examples: ['slack'] } as typeof Format),
  operations: Type.Optional(
    Type.Array(OperationPattern, {
      minItems: 1,
      maxItems: 100,
      uniqueItems: true,
      examples: [['api_keys.*', '*.delete']],
      description:
        'Operations whose audit events are sent: operation ids, or patterns with * for the first or last part. ["*"]: all. ["alerts.*"]: alerts that fire or are resolved.',
      'x-default': ['*'],
    }),
  ),
  enabled: Type.Optional(
    Type.Boolean({
      description: 'Whether events are sent. Events missed while it is disabled are sent when it is enabled again.',
      'x-default': true,
    }),
  ),
}
const Url = Text(
  2048,
  'Where events are sent, as POST requests. Must begin with https:// and lead to a public address, unless the operator allows others. With format email: mailto: and an address.',
  'https://example.com/gatehouse',
)

export const WebhookDestinationCreate = Closed({ url: Url, ...Annotations, ...fields })
export type WebhookDestinationCreate = Static<typeof WebhookDestinationCreate>
export const WebhookDestinationUpdate = Closed({
  id: PathId('whd'),
  url: Type.Optional(Url),
  ...Annotations,
  ...fields,
})
export type WebhookDestinationUpdate = Static<typeof WebhookDestinationUpdate>

export const WebhookDestinationRotate = Closed({
  overlap_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 30 * 24 * 60 * 60,
      examples: [3_600],
      description: 'How long events are also signed with the replaced secret. Default: 86400 (one day).',
    }),
  ),
})

export const WebhookDestination = Closed(
  {
    id: Id('whd'),
    uri: Uri,
    ...AnnotationsShown,
    created_at: Timestamp,
    url: Type.String({ description: 'Where events are sent.' }),
    format: Format,
    operations: Type.Array(Type.String(), { description: 'Patterns of the operations whose events are sent.' }),
    enabled: Type.Boolean(),
    disabled_reason: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description:
        'Why the service has disabled it: failing (no event could be delivered for days) or gone (the receiver answered 410). Null: it has not.',
    }),
    secret: ShownOnce('The secret that verifies signatures. Null except in the responses to creation and rotation.'),
    previous_secret_expires_at: Volatile(
      TimestampOrNull('Until when events are also signed with the replaced secret. Null: they are not.'),
    ),
    status: StatusShown,
    failing_since: Volatile(
      TimestampOrNull('Since when no event could be delivered. Null: the last attempt succeeded.'),
    ),
    last_delivered_at: Volatile(TimestampOrNull('When an event was last delivered. Null: never.')),
    skipped_events: Type.Integer({
      'x-volatile': true,
      description: 'Events that were not sent because they were past their retention when their turn came.',
    }),
  },
  { title: 'WebhookDestination' },
)
export type WebhookDestination = Static<typeof WebhookDestination>
export const WebhookDestinationQuery = Closed({ ...PageParameters, before_id: BeforeId('whd') })

const statuses = ['pending', 'delivered', 'dead'] as const
export type DeliveryStatus = (typeof statuses)[number]
const Status = Type.Unsafe<DeliveryStatus>({
  type: 'string',
  enum: [...statuses],
  description: 'dead: every attempt failed, and the event is sent again only by a replay.',
})

export const WebhookDelivery = Closed(
  {
    id: Id('ev'),
    operation: Type.String({ description: 'The operation of the audit event.' }),
    resource_id: Type.String({ description: 'The resource that was changed.' }),
    status: Status,
    attempts: Type.Integer({ description: 'How often the event was sent.' }),
    next_attempt_at: TimestampOrNull('When it is sent next, if earlier events of its resource are done by then.'),
    last_attempt_at: TimestampOrNull('When it was last sent.'),
    last_status: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      description: 'The HTTP status of the last response. Null: there was none.',
    }),
    last_error: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'Why the last attempt failed. Null: it did not.',
    }),
  },
  { title: 'WebhookDelivery' },
)
export type WebhookDelivery = Static<typeof WebhookDelivery>
export const WebhookDeliveryQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('ev'),
  status: Type.Optional(Status),
})
export type WebhookDeliveryQuery = Static<typeof WebhookDeliveryQuery>
export const WebhookDeliveryList = ListOf('deliveries', WebhookDelivery)

const replayFields = {
  event_ids: Type.Optional(
    Type.Array(Id('ev'), {
      minItems: 1,
      maxItems: 100,
      uniqueItems: true,
      description: 'Send these audit events again, including delivered ones.',
    }),
  ),
  since: Type.Optional(
    Type.String({
      format: 'date-time',
      'x-maxBytes': 40,
      'x-moment': true,
      examples: ['2026-11-01T00:00:00Z'],
      description: 'Send dead events from this time on again (RFC 3339).',
    }),
  ),
}
export const WebhookReplay = Closed(replayFields, {
  'x-documented': { oneOf: [{ required: ['event_ids'] }, { required: ['since'] }] },
})
export const WebhookReplayed = Closed(
  { replayed: Type.Integer({ description: 'How many events are sent again.' }) },
  { title: 'WebhookReplayed' },
)
