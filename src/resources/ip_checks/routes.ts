import { Type } from 'typebox'
import { route } from '../../http/route.ts'
import { Closed, Ref, RefOrNull, type Static, Text } from '../../http/wire.ts'
import { formatAddress, parseAddress } from '../../kernel/ip/address.ts'
import { decidedBy } from '../ip_restrictions/decided_by.ts'
import { RestrictionTypeField } from '../ip_restrictions/schema.ts'

const IpCheck = Closed({ type: RestrictionTypeField, ip: Text(64, 'An IPv4 or IPv6 address.', '203.0.113.7') })
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
const IpCheckResult = Closed(
  {
    type: RestrictionTypeField,
    ip: Type.String({ description: 'Canonical; as it was sent when it is not an address.' }),
    allowed: Type.Boolean({ description: 'Whether traffic of this type from this address is let through.' }),
    reason: Type.String({ description: 'The decision in a sentence.' }),
    decided_by: Type.Unsafe<Static<typeof CheckedRestriction> | null>({
      anyOf: [CheckedRestriction, { type: 'null' }],
      description: 'The enforced restriction that refuses it, with the policy and the rule. Null when none does.',
    }),
    restrictions: Type.Array(CheckedRestriction, {
      description: 'What every restriction of this type says, also those that only warn.',
    }),
  },
  { title: 'IpCheckResult' },
)

/** A dry run for people, and a decision point for agents: it answers as the service itself would decide. */
export const ipCheckRoutes = [
  route({
    operation: 'ip_checks.create',
    summary: 'Check whether an address would be let through, and what decides it',
    method: 'POST',
    path: '/ip_checks',
    body: IpCheck,
    success: 200,
    response: IpCheckResult,
    access: 'anyone',
    async handle({ caller, judge, body: { type, ip }, uri }) {
      const address = parseAddress(ip)
      const judgements = await judge(caller, type, address)
      const restrictions = judgements.map((judgement) => {
        const { ip_restriction, ...rest } = decidedBy(judgement, uri)
        return { ip_restriction, enforced: judgement.enforced, allowed: judgement.allowed, ...rest }
      })
      const decided_by = restrictions.find(({ enforced, allowed }) => enforced && !allowed) ?? null
      return {
        type,
        ip: address ? formatAddress(address) : ip,
        // What cannot be read is denied, also where nothing restricts: whoever asks is about to let someone in.
        allowed: address !== undefined && decided_by === null,
        reason: reasonOf(address !== undefined, decided_by, restrictions),
        decided_by,
        restrictions,
      }
    },
  }),
]

type Checked = Static<typeof CheckedRestriction>
function reasonOf(isAddress: boolean, decidedBy: Checked | null, all: Checked[]): string {
  if (!isAddress) return 'This is not an IP address, and what cannot be read is refused.'
  if (decidedBy?.ip_policy_rule)
    return `${decidedBy.ip_restriction.id} refuses it by the rule ${decidedBy.ip_policy_rule.id}.`
  if (decidedBy) return `${decidedBy.ip_restriction.id} refuses it because no rule of its policies allows it.`
  const warnings = all.filter(({ allowed }) => !allowed)
  if (warnings.length)
    return `It is let through with a warning: ${warnings.map(({ ip_restriction }) => ip_restriction.id).join(', ')} would refuse it if enforced.`
  if (all.length === 0) return 'No restriction of this type exists, so every address is let through.'
  return 'Every restriction of this type allows it.'
}
