import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { newCertificate } from '../harness/certificates.ts'
import type { Client } from '../harness/client.ts'
import { mutualTlsSample } from '../harness/client_authorities.ts'
import { connectionLimitSample, ofModules } from '../harness/route_modules.ts'

/** One of a resource, with every field that PATCH takes set to something other than its default. */
export type Fixture = {
  params: Record<string, string>
  sent: Record<string, unknown>
}
type Make = (as: Client) => Promise<Fixture>

const annotations = { description: 'one', metadata: '{"a":1}' }

async function created(as: Client, path: string, body: object): Promise<string> {
  const answer = await as('POST', path, body)
  assert.equal(answer.status, 201, answer.text)
  return answer.body.id
}
const make =
  (path: string, body: (as: Client) => Promise<Record<string, unknown>>): Make =>
  async (as) => {
    const sent = await body(as)
    return { params: { id: await created(as, path, sent) }, sent }
  }

const policyId = (as: Client) => created(as, '/ip_policies', {})
const backendId = (as: Client) => created(as, '/backends/static', { address: 'app.internal:8080' })
const backendModule = async (as: Client) => ({ enabled: false, backend_id: await backendId(as) })
const restrictionModule = async (as: Client) => ({ enabled: false, ip_policy_ids: [await policyId(as)] })

/** By the operation that changes them. Add one for every resource that has a PATCH. */
export const fixturesWith = (freshTcpPort: () => Promise<number>): Record<string, Make> => ({
  'api_keys.update': make('/api_keys', async () => ({
    ...annotations,
    expires_at: '2099-01-31T12:00:00.000Z',
    scopes: ['api_keys.get'],
    allowed_cidrs: ['203.0.113.0/24'],
  })),
  'users.update': async (as) => {
    const sent = { name: 'Grace', email: `${randomUUID()}@example.com`, role: 'viewer' }
    const id = await created(as, '/users', sent)
    await as('PATCH', `/users/${id}`, { active: false })
    return { params: { id }, sent: { ...sent, active: false } }
  },
  'bot_users.update': make('/bot_users', async () => ({ name: 'a bot', active: false })),
  'ip_policies.update': make('/ip_policies', async () => annotations),
  'ip_policy_rules.update': make('/ip_policy_rules', async (as) => ({
    ...annotations,
    ip_policy_id: await policyId(as),
    action: 'deny',
    cidr: '203.0.113.0/24',
    expires_at: '2099-01-31T12:00:00.000Z',
  })),
  'ip_restrictions.update': make('/ip_restrictions', async (as) => ({
    ...annotations,
    type: 'agent',
    enforced: true,
    ip_policy_ids: [await policyId(as)],
  })),
  'static_backends.update': make('/backends/static', async () => ({
    ...annotations,
    address: 'app.internal:8443',
    tls: { enabled: true },
    protocol: 'http2',
    send_proxy_protocol: true,
    health_check: { type: 'http', path: '/healthz', interval_seconds: 20, healthy_after: 4, unhealthy_after: 5 },
  })),
  'weighted_backends.update': make('/backends/weighted', async (as) => ({
    ...annotations,
    backends: { [await backendId(as)]: 7 },
  })),
  'failover_backends.update': make('/backends/failover', async (as) => ({
    ...annotations,
    backends: [await backendId(as), await created(as, '/backends/http_response', { status_code: 503 })],
  })),
  'http_response_backends.update': make('/backends/http_response', async () => ({
    ...annotations,
    status_code: 503,
    headers: { 'Retry-After': '600' },
    body: 'Back at noon.',
  })),
  'tcp_edges.update': make('/edges/tcp', async (as) => ({
    ...annotations,
    hostports: [`tcp.example.com:${await freshTcpPort()}`],
    cells: ['default'],
    backend: await backendModule(as),
    ip_restriction: await restrictionModule(as),
    rate_limit: { enabled: false, ...connectionLimitSample.whole },
  })),
  'https_edges.update': make('/edges/https', async () => ({
    ...annotations,
    hostports: [`${randomUUID()}.example:443`],
    cells: ['default'],
    mutual_tls: { enabled: false, ...mutualTlsSample.whole },
  })),
  'https_edge_routes.update': async (as) => {
    const edge_id = await created(as, '/edges/https', {})
    const sent = {
      ...annotations,
      match_type: 'exact_path',
      match: '/status',
      encoded_slashes: 'allow',
      path_variants: 'ignore',
      websocket: false,
      timeouts: { connect_seconds: 1, response_seconds: 2, idle_seconds: 3 },
      backend: await backendModule(as),
      ip_restriction: await restrictionModule(as),
      request_headers: { enabled: false, add: { 'X-One': '1' }, remove: ['Cookie'] },
      response_headers: { enabled: false, add: { 'X-One': '1' }, remove: ['Server'] },
      ...ofModules(({ whole }) => ({ enabled: false, ...whole })),
    }
    return { params: { edge_id, id: await created(as, `/edges/https/${edge_id}/routes`, sent) }, sent }
  },
  'reserved_domains.update': async (as) => {
    const domain = `${randomUUID()}.example`
    const certificate_id = await created(as, '/tls_certificates', newCertificate([domain, `*.${domain}`]))
    // A domain has a certificate of its own or one that is ordered for it, not both.
    const sent = { ...annotations, domain, certificate_id, certificate_management_policy: null }
    return { params: { id: await created(as, '/reserved_domains', sent) }, sent }
  },
  'tls_certificates.update': make('/tls_certificates', async () => ({
    ...annotations,
    ...newCertificate(['app.example.com']),
  })),
  'change_sets.update': make('/change_sets', async () => ({
    ...annotations,
    changes: [
      { operation: 'ip_policies.create', body: { description: 'one' } },
      { operation: 'ip_policies.update', parameters: { id: '{{changes[0].id}}' }, body: {}, if_match: '*' },
    ],
  })),
  'access_tests.update': async (as) => {
    const edge_id = await created(as, '/edges/https', {})
    const route = { match_type: 'path_prefix', match: '/' }
    const route_id = await created(as, `/edges/https/${edge_id}/routes`, route)
    const sent = {
      ...annotations,
      address: '192.0.2.1',
      target: { type: 'route', route_id, path: '/a' },
      expect: 'allowed',
    }
    return { params: { id: await created(as, '/access_tests', sent) }, sent }
  },
  'webhook_destinations.update': make('/webhook_destinations', async () => ({
    ...annotations,
    url: 'https://example.com/hook',
    format: 'slack',
    operations: ['api_keys.*'],
    enabled: false,
  })),
  'alert_rules.update': async (as) => {
    const resource_id = await created(as, '/edges/https', {})
    const sent = {
      ...annotations,
      ...{ kind: 'errors', resource_id, for_seconds: 120, percent: 2.5, window_minutes: 10, enabled: false },
      silenced_until: '2030-01-31T12:00:00.000Z',
    }
    return { params: { id: await created(as, '/alert_rules', sent) }, sent }
  },
})
