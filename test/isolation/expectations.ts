import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type DbPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, type IdPrefix, newUuid, toUuid } from '../../src/kernel/ids.ts'
import { keepRequests } from '../../src/resources/requests/keep.ts'
import type { Client } from '../harness/client.ts'
import { mutualTlsSample } from '../harness/client_authorities.ts'
import { keptRequest } from '../harness/edge_requests.ts'
import { poll } from '../harness/poll.ts'
import { connectionLimitSample, ofModules } from '../harness/route_modules.ts'
import { accessTestExpectations } from './access_tests.ts'
import { alertExpectations } from './alerts.ts'
import { backend, backendExpectations, failover, response, weighted } from './backends.ts'
import { certificateBody, certificateExpectations } from './certificates.ts'
import { changeSetExpectations } from './change_sets.ts'
import type { Expectation, Make } from './expectation.ts'
import { invitationExpectations } from './invitations.ts'
import { id, make } from './make.ts'
import { rolloutExpectations } from './rollouts.ts'

const apiKey = make('/api_keys', () => ({ description: 'one' }))
const user = make('/users', () => ({ name: 'one', email: `${randomUUID()}@example.com` }))
const bot = make('/bot_users', () => ({ name: 'one' }))

const identity: Make = async (as) => {
  const owner_id = await user(as)
  return make('/identities', () => ({ owner_id, issuer: 'https://id.example', subject: randomUUID() }))(as)
}
// Disabled: what the service sends in the background would look like a change by a refused call.
const newWebhook = () => ({ url: 'https://example.com/hook', enabled: false })
const webhook = make('/webhook_destinations', newWebhook)
const policy = make('/ip_policies', () => ({ description: 'one' }))
const rule: Make = async (as) => {
  const ip_policy_id = await policy(as)
  return make('/ip_policy_rules', () => ({ ip_policy_id, action: 'allow', cidr: '10.0.0.0/8' }))(as)
}
const restriction: Make = async (as) => {
  const policyId = await policy(as)
  return make('/ip_restrictions', () => ({ type: 'agent', ip_policy_ids: [policyId] }))(as)
}

const certificate = make('/tls_certificates', () => certificateBody)
const tcpEdge: Make = async (as) => {
  const [backend_id, policyId] = [await backend(as), await policy(as)]
  return make('/edges/tcp', () => ({
    backend: { backend_id },
    ip_restriction: { ip_policy_ids: [policyId] },
    rate_limit: connectionLimitSample.least,
  }))(as)
}
const mutualEdge = make('/edges/https', () => ({ mutual_tls: mutualTlsSample.least }))
const reservedDomain = make('/reserved_domains', () => ({ domain: `${randomUUID()}.isolation.example` }))
const domainWithCertificate: Make = async (as) => {
  const certificate_id = await certificate(as)
  return make('/reserved_domains', () => ({ domain: `${randomUUID()}.isolation.example`, certificate_id }))(as)
}
const httpsEdge = make('/edges/https', () => ({ hostports: [`${randomUUID()}.example:443`] }))
/** A route with every module, on its own edge. */
const route = async (as: Client) => {
  const [edge_id, backend_id, policyId] = [await httpsEdge(as), await backend(as), await policy(as)]
  const body = {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id },
    ip_restriction: { ip_policy_ids: [policyId] },
    request_headers: { add: { 'X-One': '1' } },
    response_headers: { add: { 'X-One': '1' } },
    ...ofModules(({ least }) => least),
  }
  return { edge_id, id: await make(`/edges/https/${edge_id}/routes`, () => body)(as) }
}

/** One of what a body can name, by the prefix of its id. */
/** There is one as soon as anything has been made. */
const auditEvent: Make = async (as) => {
  await policy(as)
  return (await as('GET', '/audit_events?limit=1')).body.audit_events[0].id
}

export const makers: Partial<Record<IdPrefix, Make>> = {
  ev: auditEvent,
  ak: apiKey,
  usr: user,
  idn: identity,
  bot,
  ipp: policy,
  ipr: rule,
  ipx: restriction,
  bkdst: backend,
  bkdwd: weighted,
  bkdfo: failover,
  bkdhr: response,
  cert: certificate,
  edgtcp: tcpEdge,
  edghts: httpsEdge,
  rd: reservedDomain,
  whd: webhook,
  edghtsrt: async (as) => (await route(as)).id,
}

/** What replaces each module, and what it refers to. */
const moduleBodies: Record<string, Pick<Expectation, 'body' | 'references'>> = {
  backend: { body: async (as) => ({ backend_id: await backend(as) }), references: { backend_id: backend } },
  ip_restriction: {
    body: async (as) => ({ enabled: false, ip_policy_ids: [await policy(as)] }),
    references: { ip_policy_ids: [policy] },
  },
  request_headers: { body: () => ({ add: { 'X-Two': '2' }, remove: ['Cookie'] }) },
  response_headers: { body: () => ({ add: { 'X-Two': '2' }, remove: ['Server'] }) },
  ...ofModules(({ whole }) => ({ body: () => whole })),
}
const modulesOf = (
  name: string,
  path: Expectation['path'],
  modules: string[],
  bodies = moduleBodies,
): Record<string, Expectation> =>
  Object.fromEntries(
    modules.flatMap((module) => [
      [`${name}.${module}.replace`, { admin: 200, member: 200, path, ...bodies[module] }],
      [`${name}.${module}.get`, { admin: 200, member: 200, path }],
      [`${name}.${module}.delete`, { admin: 204, member: 204, path }],
    ]),
  )

/** A call that an IP restriction refused. The restriction is deleted again, so that it refuses no other call. */
const refusal: Make = async (as) => {
  const ip_policy_id = await policy(as)
  await as('POST', '/ip_policy_rules', { ip_policy_id, action: 'allow', cidr: '127.0.0.0/8' })
  const { body: enforced } = await as('POST', '/ip_restrictions', {
    type: 'api',
    enforced: true,
    ip_policy_ids: [ip_policy_id],
  })
  const refused = await as('GET', '/caller', undefined, { headers: { 'x-forwarded-for': '203.0.113.1' } })
  assert.equal(refused.status, 403, refused.text)
  assert.equal((await as('DELETE', enforced.uri)).status, 204)
  const id = refused.body.details.operation_id
  // Written within a second or two, not with the answer.
  await poll(
    () => as('GET', `/ip_refusals/${id}`),
    ({ status }) => status !== 404,
  )
  return id
}

let database: DbPool | undefined
/** For what comes from elsewhere, and not from the API: where to write it. */
export const writeTo = (db: DbPool): void => {
  database = db
}

/** As with an ACME directory, which this installation does not have. */
const managedDomain: Make = async (as) => {
  const domain = await reservedDomain(as)
  assert.ok(database, 'call writeTo() first')
  await run(
    database,
    sql`update reserved_domains set certificate_authority = 'acme', private_key_type = 'ecdsa' where id = ${toUuid(domain as Id)}`,
  )
  return domain
}

/** A request at an edge, written as if a node had sent it. */
const edgeRequest: Make = async (as) => {
  assert.ok(database, 'call writeTo() first')
  const [edge, { body: caller }] = [await httpsEdge(as), await as('GET', '/caller')]
  const request = keptRequest({ accountId: caller.account_id }, { id: edge })
  await keepRequests(database, { node: 'edge-1', batch: newUuid(), requests: [request], dropped: [] }, 1_000)
  return request.id
}

/** By operation. A route that is missing here, and an entry without its route, fail the matrix. */
export const expectations: Record<string, Expectation> = {
  'api_keys.create': { admin: 201, member: 201, body: () => ({ description: 'new' }), references: { owner_id: bot } },
  'api_keys.get': { admin: 200, member: 200, path: id(apiKey) },
  'api_keys.list': { admin: 200, member: 200, lists: apiKey, filters: { descendants_of: apiKey, owner_id: bot } },
  'api_keys.update': {
    admin: 200,
    member: 403,
    memberOnOwn: 200,
    path: id(apiKey),
    body: () => ({ description: 'other', metadata: 'other' }),
  },
  'api_keys.rotate': {
    admin: 200,
    member: 403,
    memberOnOwn: 200,
    path: id(apiKey),
    body: () => ({ overlap_seconds: 60 }),
    onlyOnItself: true,
  },
  'api_keys.delete': { admin: 204, member: 403, memberOnOwn: 204, path: id(apiKey) },

  'users.create': { admin: 201, member: 403, body: () => ({ name: 'new', email: `${randomUUID()}@example.com` }) },
  'users.get': { admin: 200, member: 200, path: id(user) },
  'users.list': { admin: 200, member: 200, lists: user },
  'users.update': { admin: 200, member: 403, path: id(user), body: () => ({ name: 'other', active: false }) },
  'users.delete': { admin: 204, member: 403, path: id(user) },
  ...invitationExpectations(user),

  'bot_users.create': { admin: 201, member: 403, body: () => ({ name: 'new' }) },
  'bot_users.get': { admin: 200, member: 200, path: id(bot) },
  'bot_users.list': { admin: 200, member: 200, lists: bot },
  'bot_users.update': { admin: 200, member: 403, path: id(bot), body: () => ({ name: 'other', active: false }) },
  'bot_users.delete': { admin: 204, member: 403, path: id(bot) },

  'ip_policies.create': { admin: 201, member: 201, body: () => ({ description: 'new' }) },
  'ip_policies.get': { admin: 200, member: 200, path: id(policy) },
  'ip_policies.list': { admin: 200, member: 200, lists: policy },
  'ip_policies.update': { admin: 200, member: 200, path: id(policy), body: () => ({ description: 'other' }) },
  'ip_policies.delete': { admin: 204, member: 204, path: id(policy) },
  'ip_policies.rules': { admin: 200, member: 200, path: id(policy) },
  'ip_policies.impact': {
    admin: 200,
    member: 200,
    path: id(policy),
    body: () => ({ rules: [{ action: 'allow', cidr: '192.0.2.0/24' }] }),
    changesNothing: true,
  },
  'ip_policies.replace_rules': {
    admin: 200,
    member: 200,
    path: id(policy),
    body: () => ({ rules: [{ action: 'allow', cidr: '192.0.2.0/24' }] }),
  },

  'ip_policies.rule_evidence': { admin: 200, member: 200, path: id(policy) },
  'ip_policies.remove_rules': {
    admin: 200,
    member: 200,
    path: async (as) => ({ id: (await as('GET', `/ip_policy_rules/${await rule(as)}`)).body.ip_policy.id }),
    // That of the policy, if it has just been made.
    body: async (as) => {
      const { body } = await as('GET', '/ip_policy_rules?limit=1')
      return { rule_ids: [body.ip_policy_rules[0]?.id ?? (await rule(as))] }
    },
  },

  'ip_policy_rules.create': {
    admin: 201,
    member: 201,
    body: async (as) => ({ ip_policy_id: await policy(as), action: 'deny', cidr: '192.0.2.1' }),
    references: { ip_policy_id: policy },
  },
  'ip_policy_rules.get': { admin: 200, member: 200, path: id(rule) },
  'ip_policy_rules.list': { admin: 200, member: 200, lists: rule, filters: { ip_policy_id: policy } },
  'ip_policy_rules.update': { admin: 200, member: 200, path: id(rule), body: () => ({ cidr: '172.16.0.0/12' }) },
  'ip_policy_rules.delete': { admin: 204, member: 204, path: id(rule) },

  'ip_restrictions.create': {
    admin: 201,
    member: 403,
    body: async (as) => ({ type: 'agent', ip_policy_ids: [await policy(as)] }),
    references: { ip_policy_ids: [policy] },
  },
  'ip_restrictions.get': { admin: 200, member: 200, path: id(restriction) },
  'ip_restrictions.list': { admin: 200, member: 200, lists: restriction, filters: { ip_policy_id: policy } },
  'ip_restrictions.update': {
    admin: 200,
    member: 403,
    path: id(restriction),
    body: () => ({ enforced: true }),
    references: { ip_policy_ids: [policy] },
  },
  'ip_restrictions.delete': { admin: 204, member: 403, path: id(restriction) },
  'ip_restrictions.warnings': { admin: 200, member: 403, path: id(restriction) },
  'ip_checks.create': {
    admin: 200,
    member: 200,
    body: () => ({ type: 'endpoints', ip: '192.0.2.1' }),
    references: { edge_id: tcpEdge, route_id: async (as) => (await route(as)).id },
    changesNothing: true,
  },
  'ip_refusals.get': { admin: 200, member: 403, path: id(refusal) },
  'ip_refusals.list': { admin: 200, member: 403, lists: refusal },

  'newly_refused_addresses.list': { admin: 200, member: 403 },

  'requests.get': { admin: 200, member: 200, path: id(edgeRequest) },
  'requests.list': { admin: 200, member: 200, lists: edgeRequest, filters: { edge_id: httpsEdge } },
  'requests.stream': { admin: 200, member: 200, filters: { edge_id: httpsEdge } },

  'ip_activity.get': { admin: 200, member: 200 },
  'traffic_statistics.get': { admin: 200, member: 200 },
  'backend_health.get': { admin: 200, member: 200 },

  ...backendExpectations,

  'tcp_edges.create': { admin: 201, member: 201, body: () => ({ description: 'new' }) },
  'tcp_edges.get': { admin: 200, member: 200, path: id(tcpEdge) },
  'tcp_edges.list': { admin: 200, member: 200, lists: tcpEdge, filters: { backend_id: backend, ip_policy_id: policy } },
  'tcp_edges.update': { admin: 200, member: 200, path: id(tcpEdge), body: () => ({ ip_restriction: null }) },
  'tcp_edges.delete': { admin: 204, member: 204, path: id(tcpEdge) },
  ...modulesOf('tcp_edges', id(tcpEdge), ['backend', 'ip_restriction', 'rate_limit'], {
    ...moduleBodies,
    rate_limit: { body: () => connectionLimitSample.whole },
  }),

  'https_edges.create': { admin: 201, member: 201, body: () => ({ description: 'new' }) },
  'https_edges.get': { admin: 200, member: 200, path: id(httpsEdge) },
  'https_edges.list': {
    admin: 200,
    member: 200,
    lists: httpsEdge,
    filters: { backend_id: backend, ip_policy_id: policy },
  },
  'https_edges.update': { admin: 200, member: 200, path: id(httpsEdge), body: () => ({ hostports: [] }) },
  'https_edges.delete': { admin: 204, member: 204, path: id(httpsEdge) },

  ...modulesOf('https_edges', id(mutualEdge), ['mutual_tls'], { mutual_tls: { body: () => mutualTlsSample.whole } }),

  'https_edge_routes.create': {
    admin: 201,
    member: 201,
    path: async (as) => ({ edge_id: await httpsEdge(as) }),
    body: () => ({ match_type: 'exact_path', match: '/new' }),
  },
  'https_edge_routes.list': {
    admin: 200,
    member: 200,
    path: async (as) => ({ edge_id: (await route(as)).edge_id }),
  },
  'https_edge_routes.get': { admin: 200, member: 200, path: route },
  'https_edge_routes.update': { admin: 200, member: 200, path: route, body: () => ({ match: '/other' }) },
  'https_edge_routes.delete': { admin: 204, member: 204, path: route },
  ...modulesOf('https_edge_routes', route, Object.keys(moduleBodies)),

  'reserved_domains.create': { admin: 201, member: 201, body: () => ({ domain: `${randomUUID()}.example` }) },
  'reserved_domains.get': { admin: 200, member: 200, path: id(reservedDomain) },
  'reserved_domains.list': { admin: 200, member: 200, lists: reservedDomain, filters: { certificate_id: certificate } },
  'reserved_domains.update': {
    admin: 200,
    member: 200,
    path: id(reservedDomain),
    body: () => ({ description: 'other' }),
    references: { certificate_id: certificate },
  },
  'reserved_domains.certificate.delete': { admin: 204, member: 204, path: id(domainWithCertificate) },
  'reserved_domains.certificate_management_policy.delete': { admin: 204, member: 204, path: id(managedDomain) },
  'reserved_domains.verify': { admin: 200, member: 200, path: id(reservedDomain), body: () => ({}) },
  'reserved_domains.delete': { admin: 204, member: 204, path: id(reservedDomain) },
  ...certificateExpectations(id(certificate), certificate),

  'edge_nodes.list': { admin: 200, member: 403 },
  'cells.list': { admin: 200, member: 200 },
  ...rolloutExpectations(() => database ?? assert.fail('call writeTo() first')),
  'generations.get': { admin: 200, member: 200, path: async () => ({ generation: '1' }) },

  'caller.get': { admin: 200, member: 200 },
  // A session has all rights of its owner, so no scope but '*' allows it.
  'dashboard_session.sign_in': { admin: 201, member: 201, viewer: 201, scoped: 403, body: ({ token }) => ({ token }) },
  // The matrix calls with tokens, and a token is not a session.
  'dashboard_session.get': { admin: 404, member: 404 },
  'dashboard_session.sign_out': { admin: 404, member: 404, viewer: 404 },
  'command_sign_in.look_up': { admin: 404, member: 404 },
  'command_sign_in.answer': {
    admin: 404,
    member: 404,
    viewer: 404,
    body: () => ({ code: 'BCDF-GHJK', approve: true }),
  },
  'identities.create': {
    admin: 201,
    member: 403,
    // A linked person has no limits, so a key with limits cannot link one.
    scoped: 403,
    body: async (as) => ({ owner_id: await user(as), issuer: 'https://id.example', subject: randomUUID() }),
    references: { owner_id: user },
  },
  'identities.get': { admin: 200, member: 403, path: id(identity) },
  'identities.list': { admin: 200, member: 403, lists: identity, filters: { owner_id: user } },
  'identities.delete': { admin: 204, member: 403, path: id(identity) },
  'audit_events.list': {
    admin: 200,
    member: 403,
    lists: bot,
    filters: { resource_id: bot, owner_id: bot, api_key_id: apiKey },
  },

  ...accessTestExpectations,
  ...alertExpectations(() => database ?? assert.fail('call writeTo() first')),
  ...changeSetExpectations,
  'webhook_destinations.create': { admin: 201, member: 403, body: newWebhook },
  'webhook_destinations.get': { admin: 200, member: 403, path: id(webhook) },
  'webhook_destinations.list': { admin: 200, member: 403, lists: webhook },
  'webhook_destinations.update': { admin: 200, member: 403, path: id(webhook), body: () => ({ description: 'x' }) },
  'webhook_destinations.rotate': { admin: 200, member: 403, path: id(webhook), body: () => ({}) },
  'webhook_destinations.test': { admin: 200, member: 403, path: id(webhook), body: () => ({}) },
  'webhook_destinations.delete': { admin: 204, member: 403, path: id(webhook) },
  'webhook_destinations.deliveries': { admin: 200, member: 403, path: id(webhook) },
  'webhook_destinations.replay': {
    admin: 200,
    member: 403,
    path: id(webhook),
    body: async (as) => ({ event_ids: [await auditEvent(as)] }),
  },
}
