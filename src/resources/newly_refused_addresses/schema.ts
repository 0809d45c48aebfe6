import { Type } from 'typebox'
import { type OutcomeType, outcomeTypes } from '../../access/evidence/address_outcomes.ts'
import {
  Closed,
  Id,
  ListOf,
  PageParameters,
  Ref,
  RefOrNull,
  type Static,
  Timestamp,
  TimestampOrNull,
} from '../../http/wire.ts'

const OrNull = (description: string) => Type.Unsafe<string | null>({ type: ['string', 'null'], description })
const RefOrNullWith = (description: string) => Type.Unsafe<Static<typeof RefOrNull>>({ ...RefOrNull, description })

const TrafficType = Type.Unsafe<OutcomeType>({
  type: 'string',
  enum: [...outcomeTypes],
  description: 'Type of traffic.',
})

const ChangeEvent = Closed(
  {
    id: Id('ev'),
    operation: Type.String({ description: 'The operation that made the change, such as ip_policy_rules.delete.' }),
    operation_id: Id('op'),
    resource_id: Type.String({ description: 'The resource that was changed.' }),
    owner_id: OrNull('The user or bot that made the change. Null for a command on the server.'),
    api_key_id: OrNull('The key that was used.'),
  },
  { title: 'RefusalCauseEvent' },
)

const RefusalCause = Closed(
  {
    kind: Type.Unsafe<'change' | 'expiry' | 'unknown'>({
      type: 'string',
      enum: ['change', 'expiry', 'unknown'],
      description:
        'change: someone made a change. expiry: a rule that allowed the address expired. unknown: the cause could not be found; `reason` says why.',
    }),
    at: TimestampOrNull('When the change was made or the rule expired.'),
    audit_event: Type.Unsafe<Static<typeof ChangeEvent> | null>({
      anyOf: [ChangeEvent, { type: 'null' }],
      description: 'The change. Null unless kind is change.',
    }),
    ip_policy: RefOrNullWith('The policy of the rule that expired. Null unless kind is expiry.'),
    ip_policy_rule: RefOrNullWith('The rule that expired. Null unless kind is expiry, or if it is not known any more.'),
    reason: Type.String({ description: 'The cause, explained in one sentence.' }),
  },
  { title: 'RefusalCause' },
)
export type RefusalCause = Static<typeof RefusalCause>

const Refusing = Closed(
  {
    by: Type.Unsafe<'module' | 'restriction'>({ type: 'string', enum: ['module', 'restriction'] }),
    ip_restriction: RefOrNullWith('Null for a module.'),
    ip_policy: RefOrNullWith('The policy with the rule that matched. Null: no rule matched.'),
    ip_policy_rule: RefOrNullWith('The deny rule that matched. Null: no rule allows the address.'),
    ip_policies: Type.Array(Ref, { description: 'All policies of the module or restriction, in order.' }),
  },
  { title: 'RefusingDecision' },
)
export type Refusing = Static<typeof Refusing>

export const NewlyRefusedAddress = Closed(
  {
    ip: Type.String({ description: 'The address in canonical form.' }),
    type: TrafficType,
    target: RefOrNullWith('The TCP edge or route that refuses the address. Null for other traffic.'),
    edge: RefOrNullWith('For a route: its HTTPS edge.'),
    last_allowed_at: Type.String({
      format: 'date-time',
      description: 'When the address was last allowed. Requests within the same hour may have been allowed later.',
    }),
    last_refused_at: Timestamp,
    decided_by: Refusing,
    cause: RefusalCause,
  },
  { title: 'NewlyRefusedAddress' },
)
export type NewlyRefusedAddress = Static<typeof NewlyRefusedAddress>

export const NewlyRefusedQuery = Closed({
  ...PageParameters,
  before: Type.Optional(
    Type.Unsafe<string>({
      type: 'string',
      'x-maxBytes': 150,
      pattern: '^[^~]+~[^~]+~[^~]+~[^~]+$',
      'x-must': 'must be taken from next_page_uri',
      examples: ['2030-01-31T12:00:00.000Z~api~00000000-0000-0000-0000-000000000000~192.0.2.1'],
      description: 'Position of the next page. Taken from next_page_uri.',
    }),
  ),
})
export const NewlyRefusedList = ListOf('newly_refused_addresses', NewlyRefusedAddress)
