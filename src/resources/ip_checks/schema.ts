import { Type } from 'typebox'
import { Closed, Id, Ref, RefOrNull, type Static, Text } from '../../http/wire.ts'
import { RestrictionTypeField } from '../ip_restrictions/schema.ts'

const checkFields = {
  type: Type.Optional(RestrictionTypeField),
  ip: Text(64, 'An IPv4 or IPv6 address.', '203.0.113.7'),
  edge_id: Type.Optional(
    Type.Unsafe<Static<ReturnType<typeof Id<'edgtcp' | 'edghts'>>>>({
      ...Id('edgtcp', 'edghts'),
      description: 'Check traffic of this edge, including its ip_restriction module. `type` is then `endpoints`.',
    }),
  ),
  route_id: Type.Optional(
    Type.Unsafe<Static<ReturnType<typeof Id<'edghtsrt'>>>>({
      ...Id('edghtsrt'),
      description: 'Check traffic of this route. `edge_id` is optional. Required for an HTTPS edge.',
    }),
  ),
  at: Type.Optional(
    Type.String({
      format: 'date-time',
      'x-maxBytes': 40,
      'x-moment': true,
      description:
        'Decide as at this earlier time (RFC 3339), from the audit log. A change counts from when its transaction began, as its audit event says. Only for admins.',
    }),
  ),
}
export const IpCheck = Closed(checkFields, {
  'x-documented': {
    allOf: [{ anyOf: [{ required: ['type'] }, { required: ['edge_id'] }, { required: ['route_id'] }] }],
  },
})
export type IpCheck = Static<typeof IpCheck>

const CheckedRestriction = Closed(
  {
    ip_restriction: Ref,
    enforced: Type.Boolean(),
    allowed: Type.Boolean(),
    ip_policy: RefOrNull,
    ip_policy_rule: RefOrNull,
  },
  { title: 'CheckedRestriction' },
)
export type CheckedRestriction = Static<typeof CheckedRestriction>

const CheckedPolicy = Closed(
  {
    ip_policy: Ref,
    action: Type.Unsafe<'allow' | 'deny' | null>({
      type: ['string', 'null'],
      enum: ['allow', 'deny', null],
      description: 'Action of the matching rule. Null: no rule matched.',
    }),
    ip_policy_rule: RefOrNull,
    cidr: Type.Unsafe<string | null>({ type: ['string', 'null'], description: 'Range of the matching rule.' }),
  },
  { title: 'CheckedPolicy' },
)
const CheckStep = Closed(
  {
    by: Type.Unsafe<'module' | 'restriction'>({ type: 'string', enum: ['module', 'restriction'] }),
    ip_restriction: Type.Unsafe<Static<typeof RefOrNull>>({ ...RefOrNull, description: 'Null for a module.' }),
    target: Type.Unsafe<Static<typeof RefOrNull>>({
      ...RefOrNull,
      description: 'The edge or route that has the module. Null for a restriction.',
    }),
    enforced: Type.Boolean({ description: 'False: it only issues warnings.' }),
    allowed: Type.Boolean(),
    policies: Type.Array(CheckedPolicy, {
      description:
        'In order. They are evaluated together: a deny in any policy refuses; otherwise an allow in any policy allows.',
    }),
  },
  { title: 'IpCheckStep' },
)
export type CheckStep = Static<typeof CheckStep>

export const IpCheckResult = Closed(
  {
    type: RestrictionTypeField,
    ip: Type.String({ description: 'The address in canonical form, or as sent if it is not an address.' }),
    allowed: Type.Boolean({ description: 'Whether traffic of this type from this address is allowed.' }),
    reason: Type.String({ description: 'The decision, explained in one sentence.' }),
    decided_by: Type.Unsafe<CheckedRestriction | null>({
      anyOf: [CheckedRestriction, { type: 'null' }],
      description: 'The enforced restriction that refuses the address, with the policy and the rule. Null: none does.',
    }),
    restrictions: Type.Array(CheckedRestriction, {
      description: 'The outcome of every restriction of this type, including those that only warn.',
    }),
    steps: Type.Array(CheckStep, {
      description:
        'Every step of the evaluation: the module, if an edge or route is given, then each restriction. The first enforced step that does not allow the address refuses it.',
    }),
  },
  { title: 'IpCheckResult' },
)
export type IpCheckResult = Static<typeof IpCheckResult>
