import { Type } from 'typebox'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Id,
  PageParameters,
  PathId,
  type Static,
  Timestamp,
  Uri,
} from '../../http/wire.ts'
import { maxAttachedPolicies } from '../../kernel/ip/decide.ts'

export const IpPolicyCreate = Closed(Annotations)
export const IpPolicyUpdate = Closed({ id: PathId('ipp'), ...Annotations })
export const IpPolicy = Closed(
  { id: Id('ipp'), uri: Uri, created_at: Timestamp, ...AnnotationsShown },
  { title: 'IpPolicy' },
)
export type IpPolicy = Static<typeof IpPolicy>
export const IpPolicyQuery = Closed({ ...PageParameters, before_id: BeforeId('ipp') })

/** For everything that attaches policies: at least one, no duplicates. */
export const IpPolicyIds = Type.Array(Id('ipp'), {
  minItems: 1,
  maxItems: maxAttachedPolicies,
  uniqueItems: true,
  description: 'IP policies of this account. Their rules are evaluated together.',
})
