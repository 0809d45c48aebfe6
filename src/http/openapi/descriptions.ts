import type { Role } from '../../identity/caller.ts'
import { leastRole, type Route } from '../route.ts'
import type { Json } from './json.ts'

/** Tag descriptions. The first part of an operation's name is its tag. */
const groups: Record<string, string> = {
  api_keys:
    'Keys that authenticate calls to this API. A token is returned only once, when its key is created or rotated.',
  users: 'People of the account: admins, members and viewers.',
  bot_users: 'Programs of the account. A bot has the rights of a member and cannot sign in.',
  ip_policies: 'Named sets of rules about source addresses, attached to restrictions, edges and routes.',
  ip_policy_rules: 'The rules of IP policies: allow or deny a range of addresses.',
  ip_restrictions: 'Attach IP policies to one kind of traffic, to warn or to refuse.',
  ip_checks: 'Dry run: would this address be allowed, and which rule decides?',
  access_tests: 'Which addresses must be let in where, and which must not. Changes that would break one are refused.',
  ip_refusals: 'Calls that an IP restriction refused, with the rule that decided.',
  requests: 'Requests that edges refused, warned about, limited or failed, and what decided.',
  newly_refused_addresses: 'Addresses that were allowed lately and are refused now, with the change that caused it.',
  traffic_statistics: 'Requests, errors and latencies at your edges.',
  ip_activity: 'How often addresses were refused or warned about.',
  backend_health: 'How the upstreams of all backends of the account are.',
  static_backends: 'Upstream servers that edges and routes send traffic to.',
  weighted_backends: 'Several static backends that share traffic by weight.',
  failover_backends: 'Several static backends of which the first that is up gets all traffic.',
  http_response_backends: 'Fixed responses that the edge sends itself, such as a maintenance page.',
  tcp_edges: 'TCP ports that edge nodes listen on, with their modules.',
  https_edges: 'Host names that edge nodes serve. The routes of an edge decide what happens to a request.',
  https_edge_routes: 'What happens to requests under a path of an HTTPS edge.',
  reserved_domains: 'Domains of the account, each proven by a TXT record in its DNS. HTTPS hostports are under them.',
  tls_certificates:
    'Certificates with their private keys, for the domains of the account. A private key is never returned.',
  edge_nodes: 'The machines that enforce restrictions and forward traffic.',
  cells: 'Sets of edge nodes. Each serves the accounts that the operator has placed in it.',
  rollouts: 'Changes on their way through the waves of edge nodes: watched, halted or released.',
  generations: 'Which edge nodes have applied a change.',
  caller: 'The identity behind the API key.',
  dashboard_session: 'Sign in to the dashboard and out of it.',
  identities: 'Who of a sign-in provider is which user.',
  command_sign_in: 'Approve or deny a sign-in of the command line, `gatehouse login`.',
  change_sets: 'Several changes that are previewed together and made in one transaction: all of them, or none.',
  approval_policy: 'Which changes need the approval of another admin before they are made.',
  audit_events: 'Who changed what, when and from where.',
  alert_rules: 'Conditions under which an alert fires.',
  alerts: 'What fires now, and what did.',
  webhook_destinations: 'Endpoints that audit events are sent to, signed and in order.',
}

export const tagOf = ({ operation }: Route): string => operation.split('.')[0] ?? operation

export function tags(routes: readonly Route[]): Json[] {
  return [...new Set(routes.map(tagOf))].map((name) => {
    const description = groups[name]
    if (!description) throw new Error(`add a description of the ${name} operations to src/http/openapi/descriptions.ts`)
    return { name, description }
  })
}

/** The first sentence becomes the summary; the rest and the required role become the description. */
export function describe(route: Route): { summary: string; description: string } {
  const [summary = '', ...rest] = route.summary.split('. ')
  const sentences = rest.map((sentence) => `${sentence}.`)
  if (route.acceptsResponse) sentences.push(sendBack)
  return { summary, description: [...sentences, whoMayCall(route)].join(' ') }
}

/** As text, not as properties: a client's types should offer only fields that can be changed. */
const sendBack = 'The body can be an edited copy of the response to a GET: read-only fields are accepted if unchanged.'

const whoByRole: Record<Role, string> = {
  admin: 'Admins only.',
  member: 'Available to every user and bot of the account except viewers.',
  viewer: 'Available to every user and bot of the account.',
}

function whoMayCall(route: Route): string {
  if (route.signsIn) return 'Needs no credentials besides the token in the body.'
  const limit = route.adminsOnly ? ` Only admins can ${route.adminsOnly}.` : ''
  return whoByRole[leastRole(route)] + limit
}
