import { Type } from 'typebox'
import { findRefusal, listRefusals, type StoredRefusal } from '../../access/evidence/refusals.ts'
import { BeforeId, Closed, Id, PageParameters, Ref, RefOrNull, type Static, Timestamp, Uri } from '../../http/wire.ts'
import { toId } from '../../kernel/ids.ts'
import { canonicalAddress } from '../../kernel/ip/address.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { decidedBy } from '../ip_restrictions/decided_by.ts'
import { RestrictionTypeField } from '../ip_restrictions/schema.ts'

const IpRefusal = Closed(
  {
    id: Id('op'),
    uri: Uri,
    created_at: Timestamp,
    type: RestrictionTypeField,
    operation: Type.String({ description: 'The operation that was called, such as api_keys.list.' }),
    source_ip: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'Null when it could not be determined.',
    }),
    api_key_id: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
    ip_restriction: Ref,
    ip_policy: RefOrNull,
    ip_policy_rule: RefOrNull,
  },
  { title: 'IpRefusal' },
)

function toIpRefusal(row: StoredRefusal, uri: (path: string) => string): Static<typeof IpRefusal> {
  const id = toId('op', row.id)
  return {
    id,
    uri: uri(`/ip_refusals/${id}`),
    created_at: row.created_at,
    type: row.type as Static<typeof RestrictionTypeField>,
    operation: row.operation,
    source_ip: row.source_ip && canonicalAddress(row.source_ip),
    api_key_id: row.api_key_id,
    ...decidedBy(
      { restrictionId: row.ip_restriction_id, policyId: row.ip_policy_id, ruleId: row.ip_policy_rule_id },
      uri,
    ),
  }
}

const refusals: Resource<{ id: 'op' }, StoredRefusal, typeof IpRefusal> = {
  name: 'ip_refusals',
  path: '/ip_refusals',
  params: { id: 'op' },
  shape: IpRefusal,
  view: toIpRefusal,
  find: findRefusal,
}

/** A refused caller gets only an operation id, which admins can look up here. */
export const ipRefusalRoutes = [
  getRoute(refusals, { summary: 'Get a refusal', access: 'admin' }),
  listRoute(refusals, {
    summary: 'List refusals, newest first',
    access: 'admin',
    field: 'ip_refusals',
    query: Closed({ ...PageParameters, before_id: BeforeId('op') }),
    select: listRefusals,
  }),
]
