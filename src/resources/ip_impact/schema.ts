import { Type } from 'typebox'
import { Closed, Ref, type Static, Timestamp } from '../../http/wire.ts'
import { RestrictionTypeField } from '../ip_restrictions/schema.ts'

/** How many addresses of each kind are named; the totals count all. */
export const maxListed = 100

const Flipped = Closed(
  {
    ip: Type.String(),
    last_seen_at: Timestamp,
    target: Type.Optional(
      Type.Unsafe<Static<typeof Ref>>({ ...Ref, description: 'With a module: the edge or route where it was seen.' }),
    ),
  },
  { title: 'FlippedAddress' },
)
const Flips = Closed(
  {
    total: Type.Integer(),
    addresses: Type.Array(Flipped, {
      description: `At most ${maxListed}, the latest first. Told to admins only: addresses are personal data.`,
    }),
  },
  { title: 'FlippedAddresses' },
)

export const Impact = Closed(
  {
    ip_policy: Ref,
    rules: Type.Integer({ description: 'How many rules the policy would have.' }),
    added: Type.Integer(),
    changed: Type.Integer({ description: 'Of those kept: with another description, metadata or expiry.' }),
    removed: Type.Integer(),
    kept: Type.Integer(),
    refuses_caller: Type.Boolean({
      description: 'Whether your own address would then be refused, so that PUT answers 409 unless told otherwise.',
    }),
    since: Timestamp,
    traffic: Type.Array(
      Closed(
        {
          type: RestrictionTypeField,
          by: Type.Unsafe<'restriction' | 'module'>({
            type: 'string',
            enum: ['restriction', 'module'],
            description: 'Whether restrictions of the account use the policy, or modules of edges and routes.',
          }),
          enforced: Type.Boolean({ description: 'False: for these only warnings would begin or end.' }),
          used_by: Type.Array(Ref, {
            description: `The restrictions, edges and routes that do; at most ${maxListed}.`,
          }),
          looked_at: Type.String({ description: 'Which addresses were tried, in a sentence.' }),
          addresses: Type.Integer({ description: 'How many were tried.' }),
          newly_refused: Flips,
          newly_allowed: Flips,
        },
        { title: 'ImpactOnTraffic' },
      ),
      { description: 'One for each kind of traffic that the policy decides about. Empty when nothing uses it.' },
    ),
  },
  { title: 'IpPolicyImpact' },
)
export type Impact = Static<typeof Impact>
