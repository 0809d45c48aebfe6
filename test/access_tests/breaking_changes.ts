import type { Client } from '../harness/client.ts'
import { make, newHttpsEdge, newRoute, newTcpEdge } from '../harness/fixtures.ts'
import { policyWith, restrict } from '../harness/ip.ts'

export const [inside, outside] = ['10.0.0.1', '203.0.113.7']

// biome-ignore lint/suspicious/noExplicitAny: resources as the API shows them; every answer is checked against openapi.json.
type Made = any
export type Stage = Record<'office' | 'open' | 'ours' | 'stranger', string> &
  Record<'rule' | 'api' | 'tcp' | 'https' | 'route' | 'test', Made>

/** Restrictions, a TCP edge and a route that let in what is inside, and tests of all of them. */
export async function setStage(as: Client, isTested = true): Promise<Stage> {
  const { source_ip } = (await as('GET', '/caller')).body
  const office = await policyWith(as, 'allow 10.0.0.0/8', `allow ${source_ip}`)
  const open = await policyWith(as, 'allow 0.0.0.0/0')
  const ours = await policyWith(as, 'allow 10.0.0.0/8 # edges')
  const stranger = await policyWith(as, 'deny 0.0.0.0/0')
  for (const [policy, description] of [
    [stranger, 'stranger'],
    [office, 'office'],
    [open, 'open'],
    [ours, 'ours'],
  ])
    await as('PATCH', `/ip_policies/${policy}`, { description })
  const module = { ip_restriction: { ip_policy_ids: [ours] } }
  const api = await restrict(as, { type: 'api', enforced: true, ip_policy_ids: [office], description: 'api' })
  await restrict(as, { type: 'dashboard', enforced: true, ip_policy_ids: [office], description: 'dashboard' })
  const [tcp, https] = [await newTcpEdge(as, module), await newHttpsEdge(as)]
  const route = await newRoute(as, { match_type: 'path_prefix', match: '/a', ...module }, https)
  const rules = (await as('GET', `/ip_policy_rules?ip_policy_id=${office}`)).body.ip_policy_rules
  const rule = rules.find(({ cidr }: { cidr: string }) => cidr === '10.0.0.0/8')
  const stage = { office, open, ours, stranger, rule, api, tcp, https, route }
  if (!isTested) return { ...stage, test: undefined }
  await testsOf(as)
  return { ...stage, test: (await as('GET', '/access_tests')).body.access_tests[0] }
}

/** Tests of the API, the dashboard, the TCP edge and the route, except where there are some. */
export async function testsOf(as: Client): Promise<void> {
  const { access_tests } = (await as('GET', '/access_tests')).body
  const tested = new Set(access_tests.map(({ target }: { target: { type: string } }) => target.type))
  const [tcp] = (await as('GET', '/edges/tcp')).body.tcp_edges
  const [https] = (await as('GET', '/edges/https')).body.https_edges
  const targets = [
    { type: 'api' },
    { type: 'dashboard' },
    { type: 'edge', edge_id: tcp.id },
    { type: 'route', route_id: https.routes.at(-1).id, path: '/a/b' },
  ].filter(({ type }) => !tested.has(type))
  for (const target of targets) await make(as, '/access_tests', { address: inside, target, expect: 'allowed' })
  for (const target of targets) await make(as, '/access_tests', { address: outside, target, expect: 'refused' })
}

/** As a change set has it. `path` and `method` are the same as a request. */
export type Change = {
  operation: string
  method: string
  path: string
  parameters?: Record<string, string>
  body?: object
}
type Making = (stage: Stage) => Change

const rule =
  (cidr: string, action: string): Making =>
  ({ office }) => ({
    operation: 'ip_policy_rules.create',
    method: 'POST',
    path: '/ip_policy_rules',
    body: { ip_policy_id: office, cidr, action },
  })
const changed =
  (operation: string, method: string, pathOf: (stage: Stage) => string, bodyOf?: (stage: Stage) => object): Making =>
  (stage) => {
    const path = pathOf(stage)
    const [edge_id, id] = path.match(/\b(?:ipp|ipr|ipx|edgtcp|edghts|edghtsrt|act)_[0-9a-z]{26}/g) ?? []
    const isRoute = operation.startsWith('https_edge_routes')
    const parameters = isRoute ? { edge_id, ...(id && { id }) } : edge_id ? { id: edge_id } : {}
    return {
      ...{ operation, method, path, parameters: parameters as Record<string, string> },
      ...(bodyOf && { body: bodyOf(stage) }),
    }
  }
const pathOf = ({ uri }: { uri: string }) => new URL(uri).pathname
const route = (stage: Stage) => pathOf(stage.route)
const module = (what: 'tcp' | 'route') => (stage: Stage) => `${pathOf(stage[what])}/ip_restriction`

/** Every way to change what the tests are about. The last ones are not about what a state file can hold. */
export const breakingChanges: Record<string, Making> = {
  'add an allow': rule('203.0.113.0/24', 'allow'),
  'add a deny': rule('10.0.0.0/16', 'deny'),
  'move a rule': changed(
    'ip_policy_rules.update',
    'PATCH',
    ({ rule }) => pathOf(rule),
    () => ({ cidr: '11.0.0.0/8' }),
  ),
  'let a rule expire': changed(
    'ip_policy_rules.update',
    'PATCH',
    ({ rule }) => pathOf(rule),
    () => ({ expires_at: '2020-01-01T00:00:00Z' }),
  ),
  'delete a rule': changed('ip_policy_rules.delete', 'DELETE', ({ rule }) => pathOf(rule)),
  'replace the rules of a module': changed(
    'ip_policies.replace_rules',
    'PUT',
    ({ ours }) => `/ip_policies/${ours}/rules`,
    () => ({ rules: [{ action: 'allow', cidr: '0.0.0.0/0' }] }),
  ),
  'remove rules': changed(
    'ip_policies.remove_rules',
    'POST',
    ({ office }) => `/ip_policies/${office}/remove_rules`,
    ({ rule }) => ({ rule_ids: [rule.id] }),
  ),
  'release a restriction': changed(
    'ip_restrictions.update',
    'PATCH',
    ({ api }) => pathOf(api),
    () => ({ enforced: false }),
  ),
  'give a restriction another policy': changed(
    'ip_restrictions.update',
    'PATCH',
    ({ api }) => pathOf(api),
    ({ open }) => ({ ip_policy_ids: [open] }),
  ),
  'delete a restriction': changed('ip_restrictions.delete', 'DELETE', ({ api }) => pathOf(api)),
  'restrict all edges': changed(
    'ip_restrictions.create',
    'POST',
    () => '/ip_restrictions',
    ({ stranger }) => ({ type: 'endpoints', enforced: true, ip_policy_ids: [stranger] }),
  ),
  'update a TCP edge': changed(
    'tcp_edges.update',
    'PATCH',
    ({ tcp }) => pathOf(tcp),
    () => ({ ip_restriction: null }),
  ),
  'disable the module of a TCP edge': changed('tcp_edges.ip_restriction.replace', 'PUT', module('tcp'), ({ ours }) => ({
    enabled: false,
    ip_policy_ids: [ours],
  })),
  'delete the module of a TCP edge': changed('tcp_edges.ip_restriction.delete', 'DELETE', module('tcp')),
  'delete a TCP edge': changed('tcp_edges.delete', 'DELETE', ({ tcp }) => pathOf(tcp)),
  'create a closer route': changed(
    'https_edge_routes.create',
    'POST',
    ({ https }) => `${pathOf(https)}/routes`,
    () => ({ match_type: 'exact_path', match: '/a/b' }),
  ),
  'move a route': changed('https_edge_routes.update', 'PATCH', route, () => ({ match: '/z' })),
  'update the module of a route': changed('https_edge_routes.update', 'PATCH', route, ({ open }) => ({
    ip_restriction: { ip_policy_ids: [open] },
  })),
  'replace the module of a route': changed(
    'https_edge_routes.ip_restriction.replace',
    'PUT',
    module('route'),
    ({ open, ours }) => ({ ip_policy_ids: [ours, open] }),
  ),
  'delete the module of a route': changed('https_edge_routes.ip_restriction.delete', 'DELETE', module('route')),
  'delete a route': changed('https_edge_routes.delete', 'DELETE', route),
  'delete an HTTPS edge': changed('https_edges.delete', 'DELETE', ({ https }) => pathOf(https)),
  'turn a test round': changed(
    'access_tests.update',
    'PATCH',
    ({ test }) => `/access_tests/${test.id}`,
    () => ({
      expect: 'allowed',
    }),
  ),
  'add a test that fails': changed(
    'access_tests.create',
    'POST',
    () => '/access_tests',
    () => ({ address: outside, target: { type: 'api' }, expect: 'allowed' }),
  ),
}
