import type { StoredRefusal } from '../../access/evidence/refusals.ts'
import type { EdgeRequest } from '../../distribution/requests.ts'
import { isId, toId, toUuid } from '../../kernel/ids.ts'
import { canonicalAddress } from '../../kernel/ip/address.ts'
import { decidedBy, refTo } from '../ip_restrictions/decided_by.ts'
import type { Request } from './schema.ts'

type UriOf = (path: string) => string

export const toRequest = (request: EdgeRequest, uri: UriOf): Request => ({
  id: request.id,
  uri: uri(`/requests/${request.id}`),
  created_at: request.at,
  outcome: request.outcome,
  reason: request.reason,
  node: request.node,
  ...placeOf(request, uri),
  operation: null,
  source_ip: request.source,
  protocol: request.protocol,
  method: request.method,
  host: request.host,
  path: request.path,
  status_code: request.status,
  duration_ms: request.durationMs,
  bytes_in: request.bytesIn,
  bytes_out: request.bytesOut,
  upstream: request.upstream,
  ip_restriction: request.restriction && refTo('ipx', toUuid(request.restriction), uri),
  ip_policy: request.policy && refTo('ipp', toUuid(request.policy), uri),
  ip_policy_rule: request.rule && refTo('ipr', toUuid(request.rule), uri),
  generation: request.generation,
  trace_id: request.trace,
  ip_refusal: null,
})

function placeOf({ edge, route }: EdgeRequest, uri: UriOf): Pick<Request, 'edge' | 'route'> {
  if (edge === null) return { edge: null, route: null }
  const edgeUri = uri(`/edges/${isId('edgtcp', edge) ? 'tcp' : 'https'}/${edge}`)
  return { edge: { id: edge, uri: edgeUri }, route: route && { id: route, uri: `${edgeUri}/routes/${route}` } }
}

/** Shows a refused API call as a request, so that all refusals can be looked up in one place. */
export function toApiCall(row: StoredRefusal, uri: UriOf): Request {
  const id = toId('op', row.id)
  return {
    id,
    uri: uri(`/requests/${id}`),
    created_at: row.created_at,
    outcome: 'refused',
    reason: 'restriction',
    node: null,
    edge: null,
    route: null,
    operation: row.operation,
    source_ip: row.source_ip && canonicalAddress(row.source_ip),
    protocol: null,
    method: null,
    host: null,
    path: null,
    status_code: 403,
    duration_ms: null,
    bytes_in: null,
    bytes_out: null,
    upstream: null,
    ...decidedBy(
      { restrictionId: row.ip_restriction_id, policyId: row.ip_policy_id, ruleId: row.ip_policy_rule_id },
      uri,
    ),
    generation: null,
    trace_id: null,
    ip_refusal: { id, uri: uri(`/ip_refusals/${id}`) },
  }
}
