import { Type } from 'typebox'
import { Closed, Id, Ref, RefOrNull, type Static, Text } from '../../http/wire.ts'
import { RestrictionTypeField } from '../ip_restrictions/schema.ts'

export const IpCheck = Closed({
  type: Type.Optional(RestrictionTypeField),
  ip: Text(64, 'An IPv4 or IPv6 address.', '203.0.113.7'),
  edge_id: Type.Optional(
    Type.Unsafe<Static<ReturnType<typeof Id<'edgtcp' | 'edghts'>>>>({
      ...Id('edgtcp', 'edghts'),
      description: 'Check what this edge does: its own ip_restriction module counts too. `type` is then `endpoints`.',
    }),
  ),
  route_id: Type.Optional(
    Type.Unsafe<Static<ReturnType<typeof Id<'edghtsrt'>>>>({
      ...Id('edghtsrt'),
      description: 'The same for a route, with or without its edge. Needed with an HTTPS edge.',
    }),
  ),
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
      description: 'Of the rule that matched. Null: none did.',
    }),
    ip_policy_rule: RefOrNull,
    cidr: Type.Unsafe<string | null>({ type: ['string', 'null'], description: 'The range of that rule.' }),
  },
  { title: 'CheckedPolicy' },
)
const CheckStep = Closed(
  {
    by: Type.Unsafe<'module' | 'restriction'>({ type: 'string', enum: ['module', 'restriction'] }),
    ip_restriction: Type.Unsafe<Static<typeof RefOrNull>>({ ...RefOrNull, description: 'Null for a module.' }),
    target: Type.Unsafe<Static<typeof RefOrNull>>({
      ...RefOrNull,
      description: 'The edge or route whose module it is. Null for a restriction.',
    }),
    enforced: Type.Boolean({ description: 'False: it only warns.' }),
    allowed: Type.Boolean(),
    policies: Type.Array(CheckedPolicy, {
      description: 'In their order. They count together: a deny in any of them refuses, else an allow in any lets in.',
    }),
  },
  { title: 'IpCheckStep' },
)
export type CheckStep = Static<typeof CheckStep>

export const IpCheckResult = Closed(
  {
    type: RestrictionTypeField,
    ip: Type.String({ description: 'Canonical; as it was sent when it is not an address.' }),
    allowed: Type.Boolean({ description: 'Whether traffic of this type from this address is let through.' }),
    reason: Type.String({ description: 'The decision in a sentence.' }),
    decided_by: Type.Unsafe<CheckedRestriction | null>({
      anyOf: [CheckedRestriction, { type: 'null' }],
      description: 'The enforced restriction that refuses it, with the policy and the rule. Null when none does.',
    }),
    restrictions: Type.Array(CheckedRestriction, {
      description: 'What every restriction of this type says, also those that only warn.',
    }),
    steps: Type.Array(CheckStep, {
      description:
        'The whole way: the module, if an edge or route was named, then every restriction. The first enforced one that does not allow it refuses it.',
    }),
  },
  { title: 'IpCheckResult' },
)
