import { Type } from 'typebox'
import { type RestrictionType, restrictionTypes } from '../../access/policies.ts'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Filter,
  Id,
  ListOf,
  PageParameters,
  PathId,
  Ref,
  type Static,
  Timestamp,
  Uri,
} from '../../http/wire.ts'
import { IpPolicyIds } from '../ip_policies/schema.ts'

export const RestrictionTypeField = Type.Unsafe<RestrictionType>({
  type: 'string',
  enum: [...restrictionTypes],
  examples: ['api'],
  description:
    'The restricted traffic: the dashboard, this API, agents that call /ip_checks, or all edges of the account.',
})
const Enforced = Type.Boolean({
  description: 'True: refuse the traffic. False: only issue warnings.',
  'x-default': false,
  examples: [false],
})

export const IpRestrictionCreate = Closed({
  ...Annotations,
  enforced: Type.Optional(Enforced),
  type: RestrictionTypeField,
  ip_policy_ids: IpPolicyIds,
})
export const IpRestrictionUpdate = Closed({
  id: PathId('ipx'),
  ...Annotations,
  enforced: Type.Optional(Enforced),
  ip_policy_ids: Type.Optional(IpPolicyIds),
})
export const IpRestriction = Closed(
  {
    id: Id('ipx'),
    uri: Uri,
    created_at: Timestamp,
    ...AnnotationsShown,
    enforced: Enforced,
    type: RestrictionTypeField,
    ip_policies: Type.Array(Ref, { description: 'In the order they were sent.' }),
  },
  { title: 'IpRestriction' },
)
export type IpRestriction = Static<typeof IpRestriction>
export const IpRestrictionQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('ipx'),
  type: Filter(RestrictionTypeField, 'Return only restrictions of this type.'),
  enforced: Filter(Type.Boolean(), 'Return only restrictions that are enforced, or only those that are not.'),
  ip_policy_id: Filter(Id('ipp'), 'Return only restrictions with this IP policy.'),
})

export const Warning = Closed(
  {
    source_ip: Type.String({ description: 'An address that would have been refused.' }),
    count: Type.Integer({ description: 'Number of occurrences within the retention period.' }),
    last_at: Timestamp,
    last_api_key_id: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'The last API key used.',
    }),
  },
  { title: 'IpRestrictionWarning' },
)
export type Warning = Static<typeof Warning>
export const WarningQuery = Closed({
  ...PageParameters,
  before: Type.Optional(
    Type.Unsafe<string>({
      type: 'string',
      'x-maxBytes': 100,
      pattern: '^[^~]+~[^~]+$',
      'x-must': 'must be taken from next_page_uri',
      examples: ['2030-01-31T12:00:00.000Z~192.0.2.1'],
      description: 'Position of the next page. Taken from next_page_uri.',
    }),
  ),
})
export const WarningList = ListOf('warnings', Warning)
