// Twelve kinds of changes that take an application down, two of each.
import assert from 'node:assert/strict'
import { freePort } from '../../dev/ports.ts'
import { newCertificate } from '../harness/certificates.ts'
import type { Answer } from '../harness/client.ts'
import { gatehouse } from '../harness/command.ts'
import type { Account } from '../harness/control_plane.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import type { Applications } from './honest_traffic.ts'
import type { Joining } from './joining.ts'

export type Owner = {
  client: Account
  host: string
  /** Where the application listens. */
  address: string
  edge: { id: string; uri: string }
  route: { id: string; uri: string }
  backend: { id: string; uri: string }
  policy: { id: string; uri: string }
  allow: { id: string; uri: string }
}
export type BadChange = {
  kind: string
  name: string
  /** What its clients ask for. */
  path?: string
  /** How long they wait for it, unless it is very long. */
  patienceMs?: number
  /** The edge has a wildcard instead of the host. */
  isWildcard?: true
  /** Made before, so that the bad change is one change. */
  prepare?: (owner: Owner) => Promise<unknown>
  make: (owner: Owner, prepared: unknown) => Promise<Answer>
  /** The API refuses it. */
  isRefused?: true
  /** Stands for a record that ends HAProxy: it is killed on each node that has the change, so long after that. */
  endsProxyAfterSeconds?: number
}

/** With an edge for the host, or for another name that it comes under. */
export async function newTenantOf(
  fleet: Pick<Joining, 'newAccount' | 'env'>,
  host: string,
  port: number,
  name = host,
): Promise<Owner> {
  const client = await fleet.newAccount()
  const address = `127.0.0.1:${port}`
  const backend = await make(client, '/backends/static', { address })
  const policy = await make(client, '/ip_policies', {})
  const edge = await newHttpsEdge(client, { hostports: [`${name}:443`] })
  if (name !== host) await holdDomain(client, host.slice(host.indexOf('.') + 1), fleet.env)
  const route = await make(client, `${edge.uri}/routes`, {
    ...{ match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } },
    ip_restriction: { ip_policy_ids: [policy.id] },
  })
  const allow = await make(client, '/ip_policy_rules', {
    ip_policy_id: policy.id,
    cidr: '127.0.0.0/8',
    action: 'allow',
  })
  return { client, host, address, edge, route, backend, policy, allow }
}

/** The certificate of the nodes is for one label. */
async function holdDomain(client: Account, domain: string, env: Joining['env']): Promise<void> {
  const { uri } = await make(client, '/reserved_domains', { domain })
  const { code, stderr } = await gatehouse(['domains', 'assign', client.accountId, domain], env)
  assert.equal(code, 0, stderr)
  const { id: certificate_id } = await make(client, '/tls_certificates', newCertificate([domain, `*.${domain}`]))
  const { status, text } = await client('PATCH', uri, { certificate_id })
  assert.equal(status, 200, text)
}

const to = (backend_id: string) => ({ backend: { backend_id } })
const newBackend =
  (port: number, more: object = {}) =>
  ({ client }: Owner) =>
    make(client, '/backends/static', { address: `127.0.0.1:${port}`, ...more })
const switchTo = ({ client, route }: Owner, backend: unknown) =>
  client('PATCH', route.uri, to((backend as { id: string }).id))
const replaceRules = ({ client, policy }: Owner, lines: string[], query = '') =>
  client('PUT', `${policy.uri}/rules${query}`, undefined, { rawBody: lines.join('\n'), contentType: 'text/plain' })
/** The clients, each alone, and others. */
const manyRules = Array.from({ length: 40 }, (_, n) => `allow 127.0.0.${n + 1}`)
const prepareRules = async (owner: Owner) => {
  const answer = await replaceRules(owner, manyRules, '?confirm=true')
  assert.equal(answer.status, 200, answer.text)
}
const addRoute = ({ client, edge }: Owner, fields: object) =>
  client('POST', `${edge.uri}/routes`, { match_type: 'path_prefix', ...fields })
export const markerPath = '/has-the-change'
const addMarker = (owner: Owner, backend: unknown) =>
  addRoute(owner, { match: markerPath, ...to((backend as { id: string }).id) })
const newMarker = ({ client }: Owner) => make(client, '/backends/http_response', { status_code: 200, body: 'marker' })

export async function badChanges(apps: Applications, lateSeconds: number): Promise<BadChange[]> {
  const closed = await freePort()
  return [
    ...changesOfAccess(),
    ...changesOfBackends(apps, closed),
    ...changesOfRoutes(apps),
    ...refusedChanges(),
    { kind: 'HAProxy ends', name: 'at once', prepare: newMarker, make: addMarker, endsProxyAfterSeconds: 0 },
    {
      ...{ kind: 'HAProxy ends', name: `after ${lateSeconds} s`, prepare: newMarker, make: addMarker },
      endsProxyAfterSeconds: lateSeconds,
    },
  ]
}

const changesOfAccess = (): BadChange[] => [
  {
    ...{ kind: 'deny everyone', name: 'a rule for every address' },
    make: ({ client, policy }) =>
      client('POST', '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '0.0.0.0/0', action: 'deny' }),
  },
  {
    ...{ kind: 'deny everyone', name: 'the rule that allows is gone' },
    make: ({ client, allow }) => client('DELETE', allow.uri),
  },
  {
    ...{ kind: 'rules lost', name: '90 % of them, confirmed', prepare: prepareRules },
    make: (owner) => replaceRules(owner, manyRules.slice(36), '?confirm=true'),
  },
  {
    ...{ kind: 'emptied', name: 'a policy, confirmed', prepare: prepareRules },
    make: (owner) => replaceRules(owner, [], '?confirm=true'),
  },
]

const changesOfBackends = (apps: Applications, closed: number): BadChange[] => [
  { kind: 'wrong upstream', name: 'another application', prepare: newBackend(apps.unknowing), make: switchTo },
  {
    ...{ kind: 'wrong upstream', name: 'another address of the backend' },
    make: ({ client, backend }) => client('PATCH', backend.uri, { address: `127.0.0.1:${closed}` }),
  },
  { kind: 'answers 500', name: 'always', prepare: newBackend(apps.failing), make: switchTo },
  { kind: 'answers 500', name: 'every other time', prepare: newBackend(apps.halfFailing), make: switchTo },
  {
    ...{ kind: 'hangs', name: 'clients give up after 5 s', patienceMs: 5_000 },
    ...{ prepare: newBackend(apps.hanging), make: switchTo },
  },
  { kind: 'hangs', name: 'clients wait for the timeout', prepare: newBackend(apps.hanging), make: switchTo },
  {
    ...{ kind: 'wrong protocol', name: 'TLS to an upstream without it' },
    make: ({ client, backend }) => client('PATCH', backend.uri, { tls: { enabled: true } }),
  },
  {
    ...{ kind: 'wrong protocol', name: 'HTTP/2 to an upstream without it' },
    make: ({ client, backend }) => client('PATCH', backend.uri, { protocol: 'http2' }),
  },
]

const changesOfRoutes = (apps: Applications): BadChange[] => [
  {
    ...{ kind: 'takes the traffic of another', name: 'a longer path', path: '/app/page' },
    prepare: newBackend(apps.failing),
    make: (owner, backend) => addRoute(owner, { match: '/app', ...to((backend as { id: string }).id) }),
  },
  {
    ...{ kind: 'takes the traffic of another', name: 'a host under a wildcard', isWildcard: true },
    prepare: newBackend(apps.failing),
    make: async ({ client, host }, backend) => {
      const route = { match_type: 'path_prefix', match: '/', ...to((backend as { id: string }).id) }
      const edge = await make(client, '/edges/https', { hostports: [`${host}:443`] })
      return client('POST', `${edge.uri}/routes`, route)
    },
  },
  {
    ...{ kind: 'header breaks the application', name: 'one that it does not expect' },
    make: ({ client, route }) => client('PUT', `${route.uri}/request_headers`, { add: { 'x-break': '1' } }),
  },
  {
    ...{ kind: 'header breaks the application', name: 'another Host' },
    make: ({ client, route }) => client('PUT', `${route.uri}/request_headers`, { add: { host: 'internal.test' } }),
  },
  {
    ...{ kind: 'too little time', name: 'for a slow page', path: '/slow' },
    make: ({ client, route }) => client('PATCH', route.uri, { timeouts: { response_seconds: 1 } }),
  },
  {
    ...{ kind: 'too little time', name: 'for the page that is slow, as a route', path: '/slow' },
    make: (owner) => addRoute(owner, { match: '/slow', timeouts: { response_seconds: 1 }, ...to(owner.backend.id) }),
  },
]

/** Before any node hears of them. */
const refusedChanges = (): BadChange[] => [
  {
    ...{ kind: 'certificate without its key', name: 'the key of another', isRefused: true },
    make: ({ client, host }) =>
      client('POST', '/tls_certificates', {
        certificate_pem: newCertificate([host]).certificate_pem,
        private_key_pem: newCertificate([host]).private_key_pem,
      }),
  },
  {
    ...{ kind: 'certificate without its key', name: 'none', isRefused: true },
    make: ({ client, host }) =>
      client('POST', '/tls_certificates', { certificate_pem: newCertificate([host]).certificate_pem }),
  },
  {
    ...{ kind: 'rules lost', name: '90 % of them', isRefused: true, prepare: prepareRules },
    make: (owner) => replaceRules(owner, manyRules.slice(36)),
  },
  {
    ...{ kind: 'emptied', name: 'an account', isRefused: true },
    async prepare(owner) {
      for (let n = 0; n < 24; n++) await addRoute(owner, { match: `/page-${n}`, ...to(owner.backend.id) })
    },
    async make({ client, edge }) {
      const changes = [{ operation: 'https_edges.delete', parameters: { id: edge.id } }]
      const set = await make(client, '/change_sets', { changes })
      return client('POST', `/change_sets/${set.id}/apply`, {})
    },
  },
]
