import { Type } from 'typebox'
import { Closed, Ref, type Static, Timestamp } from '../../http/wire.ts'
import { RestrictionTypeField } from '../ip_restrictions/schema.ts'

/** Listed addresses of each kind. Totals count all of them. */
export const maxListed = 100

const Flipped = Closed(
  {
    ip: Type.String(),
    last_seen_at: Timestamp,
    target: Type.Optional(
      Type.Unsafe<Static<typeof Ref>>({
        ...Ref,
        description: 'For a module: the edge or route where the address was seen.',
      }),
    ),
  },
  { title: 'FlippedAddress' },
)
const Flips = Closed(
  {
    total: Type.Integer({
      description: 'Number of addresses. One that was seen at several edges and routes counts once.',
    }),
    addresses: Type.Array(Flipped, {
      description: `At most ${maxListed}, most recent first; for a module, one entry for each edge or route. Empty for callers who are not admins, because addresses are personal data.`,
    }),
  },
  { title: 'FlippedAddresses' },
)

export const Impact = Closed(
  {
    ip_policy: Ref,
    rules: Type.Integer({ description: 'Number of rules the policy would have.' }),
    added: Type.Integer(),
    changed: Type.Integer({ description: 'Kept rules whose description, metadata or expiry would change.' }),
    removed: Type.Integer(),
    kept: Type.Integer(),
    refuses_caller: Type.Boolean({
      description: 'Whether your own address would be refused. PUT then answers 409 unless allow_self_lockout is true.',
    }),
    since: Timestamp,
    traffic: Type.Array(
      Closed(
        {
          type: RestrictionTypeField,
          by: Type.Unsafe<'restriction' | 'module'>({
            type: 'string',
            enum: ['restriction', 'module'],
            description: 'What uses the policy: restrictions of the account, or modules of edges and routes.',
          }),
          enforced: Type.Boolean({ description: 'False: only warnings would change.' }),
          used_by: Type.Array(Ref, {
            description: `The restrictions, edges and routes that use the policy. At most ${maxListed}.`,
          }),
          let_in_known: Type.Unsafe<'all' | 'some' | 'none'>({
            type: 'string',
            enum: ['all', 'some', 'none'],
            description:
              'How many of the addresses that were let in are known, and so could be found to be newly refused. `none`: which addresses would be newly refused is unknown, and newly_refused says nothing.',
          }),
          unknown_at: Type.Array(Ref, {
            description: `For modules: the edges and routes that have not reported any address that they let in, so that it is not known which they would newly refuse. At most ${maxListed}.`,
          }),
          looked_at: Type.String({ description: 'Which addresses were evaluated, in one sentence.' }),
          addresses: Type.Integer({ description: 'Number of addresses evaluated, each counted once.' }),
          newly_refused: Flips,
          newly_allowed: Flips,
        },
        { title: 'ImpactOnTraffic' },
      ),
      { description: 'One entry per traffic type that the policy affects. Empty when nothing uses the policy.' },
    ),
  },
  { title: 'IpPolicyImpact' },
)
export type Impact = Static<typeof Impact>
