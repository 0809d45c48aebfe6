import type { Shapes } from '../../api/client.ts'

export type AuditEvent = Shapes['AuditEvent']

export const nouns: Record<string, string> = {
  api_keys: 'API key',
  users: 'user',
  bot_users: 'bot',
  identities: 'identity',
  ip_policies: 'IP policy',
  ip_policy_rules: 'rule',
  ip_restrictions: 'IP restriction',
  static_backends: 'backend',
  weighted_backends: 'weighted backend',
  failover_backends: 'failover backend',
  http_response_backends: 'HTTP response backend',
  tcp_edges: 'TCP edge',
  https_edges: 'HTTPS edge',
  https_edge_routes: 'route',
  webhook_destinations: 'webhook',
  reserved_domains: 'domain',
  tls_certificates: 'certificate',
  change_sets: 'change set',
  access_tests: 'access test',
  alert_rules: 'alert rule',
  alerts: 'alert',
  approval_policy: 'approval policy',
  rollouts: 'rollout',
}
/** Modules whose names need special spelling. */
export const modules: Record<string, string> = { ip_restriction: 'IP restriction' }
const verbs: Record<string, string> = {
  create: 'created',
  update: 'changed',
  delete: 'deleted',
  replace: 'set',
  rotate: 'rotated',
  disable: 'disabled',
  test: 'tested',
  fire: 'fired',
  resolve: 'resolved',
  replay: 'replayed events of',
  verify: 'verified',
  apply: 'applied',
  confirm: 'confirmed',
  approve: 'approved',
  withdraw: 'withdrew',
  revert: 'proposed to undo',
  revert_unconfirmed: 'undid, because no one confirmed it,',
  start: 'started',
  halt: 'halted',
  resume: 'resumed',
  release: 'released',
  replace_rules: 'replaced the rules of',
  remove_rules: 'removed rules of',
}

/** Phrases for operations that verb and noun do not describe well; commands on the server are not API operations. */
const phrases: Record<string, string> = {
  'approval_policy.break_glass': 'did without approval for',
  'rollouts.urgent': 'did not wait for the watch with',
  'dashboard_session.sign_in': 'signed in to the dashboard',
  'dashboard_session.sign_out': 'signed out of the dashboard',
  'sign_in.succeeded': 'signed in with a provider',
  'sign_in.failed': 'refused a sign-in to',
  'sign_in.create_user': 'created, at their first sign-in,',
  'sign_in.create_key': 'created, for sign-ins,',
  'sign_in.update_role': 'changed, by the roles of the provider,',
  'sign_in.link': 'linked to a user',
  'sign_in.end_access': 'revoked, because the provider allows no access,',
  'sign_in.ended_by_provider': 'ended, because it ended at the provider,',
  'sign_in.accept_invitation': 'accepted the invitation to',
  'users.invitation.create': 'invited',
  'users.invitation.delete': 'withdrew the invitation of',
  'command_sign_in.answer': 'signed in a command line with',
  'server.bootstrap': 'set up the account and created',
  'server.recover': 'created, to restore access for an admin,',
  'server.ip_restrictions.release': 'stopped enforcing',
  'server.acme.issue': 'obtained a certificate for domain',
  'server.acme.fail': 'failed to obtain a certificate for domain',
  'server.cells.create': 'added a cell to those of account',
  'server.cells.delete': 'deleted a cell of account',
  'server.cells.place': 'changed the cells of account',
  'server.domains.assign': 'assigned domain',
  'server.domains.unassign': 'unassigned domain',
  'server.domains.recheck': 'checked domain',
  'server.domains.lapse': 'ended the hold of domain',
  'server.domains.displace': 'took hostports out of force of',
}

/** Describes an operation: 'changed IP restriction', 'set the request headers of route'. */
export function deedOf(operation: string): string {
  const phrase = phrases[operation]
  if (phrase) return phrase
  const [resource = '', ...rest] = operation.split('.')
  const verb = verbs[rest.at(-1) ?? ''] ?? rest.at(-1) ?? ''
  const noun = nouns[resource] ?? resource.replaceAll('_', ' ')
  const [module] = rest.length > 1 ? rest : []
  return module ? `${verb} the ${modules[module] ?? module.replaceAll('_', ' ')} of ${noun}` : `${verb} ${noun}`
}

/** Name of the resource, from its state after the change, or before its deletion. */
export function subjectOf({
  before,
  after,
  resource_id,
}: Pick<AuditEvent, 'before' | 'after' | 'resource_id'>): string {
  const state: Record<string, unknown> = after ?? before ?? {}
  for (const field of ['description', 'name', 'cidr', 'match', 'address', 'domain']) {
    const value = state[field]
    if (typeof value === 'string' && value) return value
  }
  const hostports = state.hostports
  return Array.isArray(hostports) && hostports.length ? hostports.join(', ') : resource_id
}
