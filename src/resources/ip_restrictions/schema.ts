import { Type } from 'typebox'
import { type RestrictionType, restrictionTypes } from '../../access/policies.ts'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
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
    'What traffic is restricted: the web dashboard, this API, agents that ask /ip_checks, or all edges of the account.',
})
const Enforced = Type.Boolean({ description: 'True: refused. False: only warnings are issued.', examples: [false] })

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
    ip_policies: Type.Array(Ref, { description: 'In the order in which they were sent.' }),
  },
  { title: 'IpRestriction' },
)
export type IpRestriction = Static<typeof IpRestriction>
export const IpRestrictionQuery = Closed({ ...PageParameters, before_id: BeforeId('ipx') })

export const Warning = Closed(
  {
    source_ip: Type.String({ description: 'An address that would have been refused.' }),
    count: Type.Integer({ description: 'How often, within the days that such counts are kept.' }),
    last_at: Timestamp,
    last_api_key_id: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'The key that was used last.',
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
      description: 'Where a page ended, as next_page_uri gives it.',
    }),
  ),
})
export const WarningList = ListOf('warnings', Warning, 'IpRestrictionWarningList')
