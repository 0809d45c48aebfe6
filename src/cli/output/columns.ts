import { fieldName, unknownField } from '../fields.ts'

/**
 * The most important columns of lists that have more fields than a terminal has room for. `--columns all` shows the
 * rest.
 */
export const firstColumns: Readonly<Record<string, readonly string[]>> = {
  'api_keys.list': ['id', 'description', 'owner_id', 'scopes', 'last_used_at', 'expires_at', 'created_at'],
  'ip_policy_rules.list': ['id', 'action', 'cidr', 'description', 'ip_policy', 'expires_at', 'created_at'],
  'ip_policies.rule_evidence': ['id', 'action', 'cidr', 'description', 'hits_7d', 'hits', 'last_hit_at', 'covered'],
  'requests.list': ['id', 'created_at', 'outcome', 'source_ip', 'method', 'host', 'path', 'status_code', 'reason'],
  'static_backends.list': ['id', 'description', 'address', 'tls', 'protocol', 'health_check', 'status', 'created_at'],
  'tls_certificates.list': [
    'id',
    'description',
    'subject_alternative_names',
    'expiry',
    'not_after',
    'in_use_by',
    'status',
  ],
  'https_edge_routes.list': ['id', 'match_type', 'match', 'backend', 'ip_restriction', 'status', 'description'],
  'edge_nodes.list': [
    'name',
    'cell',
    'status',
    'applied_generation',
    'records',
    'version',
    'last_seen_at',
    'refusals',
    'certificates',
  ],
  'audit_events.list': ['id', 'created_at', 'operation', 'resource_id', 'owner_id', 'source_ip'],
  'change_sets.list': ['id', 'description', 'state', 'operations', 'author_id', 'created_at', 'applied_at'],
  'access_tests.list': ['id', 'result', 'address', 'target', 'expect', 'description', 'reason'],
  'alert_rules.list': ['id', 'kind', 'resource_id', 'state', 'description', 'silenced_until', 'evaluated_at'],
  'alerts.list': ['id', 'state', 'kind', 'resource_id', 'since', 'reason', 'notified_at', 'rule_id'],
  'users.list': ['id', 'name', 'email', 'role', 'active', 'has_signed_in', 'invitation_state', 'invitation_expires_at'],
  'webhook_destinations.list': ['id', 'description', 'url', 'enabled', 'status', 'last_delivered_at', 'skipped_events'],
}

/** Omitted from tables for people: fields of little interest, and those that never differ. */
const seldomShown = new Set(['uri', 'metadata', 'token', 'edge_id'])

/** The columns of a list. `asked` is the value of `--columns`. */
export function columnsOf(
  operationId: string,
  fields: readonly string[],
  asked: string | undefined,
): readonly string[] {
  if (asked === 'all') return fields
  if (asked !== undefined) return asked.split(',').map((name) => fieldNamed(name.trim(), fields))
  const first = firstColumns[operationId]
  if (first) return first
  const usual = fields.filter((name) => !seldomShown.has(name) && name !== 'created_at')
  return fields.includes('created_at') ? [...usual, 'created_at'] : usual
}

function fieldNamed(name: string, fields: readonly string[]): string {
  const field = fieldName(name)
  if (fields.includes(field)) return field
  throw unknownField('--columns', name, fields)
}
