import { Type } from 'typebox'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Id,
  Moment,
  PageParameters,
  PathId,
  Ref,
  type Static,
  Timestamp,
  Uri,
} from '../../http/wire.ts'

const CidrText = Type.Unsafe<string>({
  type: 'string',
  'x-maxBytes': 64,
  'x-cidr': true,
  examples: ['203.0.113.0/24'],
  description: 'A CIDR range without host bits, or a single address.',
})
const Action = Type.Unsafe<'allow' | 'deny'>({ type: 'string', enum: ['allow', 'deny'] })
const ExpiresAt = Moment('When the rule expires (RFC 3339). Null: never.')

const RuleFields = { cidr: CidrText, action: Action, ...Annotations, expires_at: ExpiresAt }

export const IpPolicyRuleCreate = Closed({ ip_policy_id: Id('ipp'), ...RuleFields })
export const IpPolicyRuleUpdate = Closed({
  id: PathId('ipr'),
  cidr: Type.Optional(CidrText),
  ...Annotations,
  expires_at: ExpiresAt,
})
export type IpPolicyRuleUpdate = Static<typeof IpPolicyRuleUpdate>
export const IpPolicyRule = Closed(
  {
    id: Id('ipr'),
    uri: Uri,
    created_at: Timestamp,
    ...AnnotationsShown,
    cidr: Type.String({ description: 'In canonical form, always with a prefix length.' }),
    action: Action,
    ip_policy: Ref,
    expires_at: Type.Optional(Timestamp),
    expired: Type.Optional(
      Type.Boolean({
        'x-volatile': true,
        description: 'Whether `expires_at` has passed. Omitted when `expires_at` is not set.',
      }),
    ),
  },
  { title: 'IpPolicyRule' },
)
export type IpPolicyRule = Static<typeof IpPolicyRule>
export const IpPolicyRuleQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('ipr'),
  ip_policy_id: Type.Optional(Id('ipp')),
})

export const maxRules = 100_000
export const RuleSet = Closed({ rules: Type.Array(Closed(RuleFields), { maxItems: maxRules }) })
export type RuleSet = Static<typeof RuleSet>

/** All rules of a policy. Omits fields that follow from its id, because there may be 100,000 rules. */
export const RuleSetShown = Closed(
  {
    ip_policy_id: Id('ipp'),
    rules: Type.Array(
      Closed(
        {
          id: Id('ipr'),
          cidr: Type.String({ description: 'In canonical form, always with a prefix length.' }),
          action: Action,
          ...AnnotationsShown,
          expires_at: Type.Optional(Timestamp),
        },
        { title: 'RuleOfSet' },
      ),
      { description: 'In order of creation, including expired rules.' },
    ),
  },
  { title: 'RuleSetShown' },
)
export type RuleSetShown = Static<typeof RuleSetShown>

export const RuleSetReplaced = Closed(
  {
    ip_policy: Ref,
    rules: Type.Integer({ description: 'Number of rules the policy has now.' }),
    added: Type.Integer(),
    changed: Type.Integer({ description: 'Kept rules whose description, metadata or expiry changed.' }),
    removed: Type.Integer(),
  },
  { title: 'RuleSetReplaced' },
)
