// Answers of the vendor's API, in the shapes that its reference documents (https://ngrok.com/docs/api-reference), with
// values of our own. Newest first, as it lists them.

import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { clientAuthority1, clientAuthority2 } from '../harness/client_authorities.ts'

type Row = Record<string, unknown>
const origin = 'https://api.ngrok.com'
/** 27 characters in both cases, unlike ours. */
const id = (prefix: string, n: number) => `${prefix}_2hrGzPLHppigkyy3AN8oHRBE${String(n).padStart(3, '0')}`
const ref = (prefix: string, n: number, path: string) => ({
  id: id(prefix, n),
  uri: `${origin}${path}/${id(prefix, n)}`,
})
const resource = (prefix: string, n: number, path: string, fields: Row): Row => ({
  ...ref(prefix, n, path),
  created_at: '2024-06-13T20:00:00Z',
  description: '',
  metadata: '',
  ...fields,
})
const policy = (n: number) => ref('ipp', n, '/ip_policies')
const rule = (n: number, of: number, action: string, cidr: string, description = '') =>
  resource('ipr', n, '/ip_policy_rules', { description, cidr, action, ip_policy: policy(of) })
const backend = (prefix: string, kind: string, n: number, fields: Row) =>
  resource(prefix, n, `/backends/${kind}`, fields)
const backendModule = (prefix: string, n: number) => ({ enabled: true, backend: ref(prefix, n, '/backends') })
const restricted = (...policies: number[]) => ({ enabled: true, ip_policies: policies.map(policy) })

const always = (...actions: Row[]) => [{ actions }]
const yamlOfV2 = `
on_http_request:
  - name: who may
    actions:
      - type: restrict-ips
        config:
          allow: [203.0.113.0/24, "2001:DB8::/32"]
          deny: [203.0.113.66/24, 203.0.113.66]
          ip_policies: [${id('ipp', 1)}]
      - type: rate-limit
        config: { name: api, algorithm: sliding_window, capacity: 30, rate: 1m30s, bucket_key: ["req.headers['x-api-key']"] }
  - actions:
      - type: add-headers
        config: { headers: { x-a: policy, x-b: kept, x-c: "$\{conn.client_ip}" } }
      - type: remove-headers
        config: { headers: [X-Secret, x-b] }
      - { type: url-rewrite, config: { from: /v2/(.*), to: /app/$1 } }
      - { type: log, config: { metadata: { a: b } } }
on_http_response:
  - actions:
      - { type: add-headers, config: { headers: { x-frame-options: DENY } } }
      - { type: compress-response }
`
/** Rules in the forms that the vendor documents: YAML, JSON, and the fields of the older module. */
const trafficPolicies = {
  guarded: JSON.stringify({
    on_tcp_connect: [{ expressions: ["conn.geo.country_code == 'XX'"], actions: [{ type: 'deny' }] }],
  }),
  mail: JSON.stringify({
    on_tcp_connect: always({ type: 'restrict-ips', config: { enforce: false, allow: ['198.51.100.0/24'] } }),
  }),
  v2: yamlOfV2.replaceAll('\\{', '{'),
  old: JSON.stringify({
    on_http_request: always(
      { type: 'rate-limit', config: { capacity: 5, rate: '60s', bucket_key: ['conn.client_ip'], enforce: false } },
      { type: 'redirect', config: { to: 'https://new.example.net/moved', status_code: 301 } },
      // Never reached.
      { type: 'jwt-validation', config: {} },
    ),
  }),
  closed: {
    enabled: true,
    inbound: always({
      type: 'custom-response',
      config: { status_code: 503, content: 'Back at noon', headers: { 'retry-after': '60' } },
    }),
    outbound: [],
  },
  odd: JSON.stringify({
    on_http_request: [
      { expressions: ["req.method == 'PUT'"], actions: [{ type: 'deny', config: { status_code: 405 } }] },
      ...always(
        { type: 'jwt-validation', config: {} },
        { type: 'rate-limit', config: { capacity: 5, rate: '24h', bucket_key: ['conn.client_ip'] } },
        { type: 'url-rewrite', config: { from: '/user/([0-9]+)', to: '/u?id=$1' } },
        { type: 'redirect', config: { from: '/a', to: '/b' } },
      ),
    ],
  }),
}

/** Every module that a route of the vendor has, as it shows those that are not set. */
const noModules = {
  backend: null,
  ip_restriction: null,
  circuit_breaker: null,
  compression: null,
  request_headers: null,
  response_headers: null,
  webhook_verification: null,
  oauth: null,
  saml: null,
  oidc: null,
  websocket_tcp_converter: null,
  user_agent_filter: null,
  traffic_policy: null,
}
const route = (n: number, match_type: string, match: string, fields: Row): Row =>
  resource('edghtsrt', n, `/edges/https/${id('edghts', 1)}/routes`, {
    edge_id: id('edghts', 1),
    match_type,
    match,
    ...noModules,
    ...fields,
  })

export const vendorAccount: Record<string, { field: string; rows: Row[] }> = {
  '/ip_policies': {
    field: 'ip_policies',
    rows: [
      resource('ipp', 2, '/ip_policies', { description: 'partners', metadata: '{"team": "sales"}' }),
      resource('ipp', 1, '/ip_policies', { description: 'office' }),
    ],
  },
  '/ip_policy_rules': {
    field: 'ip_policy_rules',
    rows: [
      rule(5, 2, 'allow', '2001:DB8::/32'),
      rule(4, 2, 'allow', '198.51.100.7/24', 'host bits'),
      rule(3, 1, 'allow', '203.0.113.66/32'),
      rule(2, 1, 'deny', '203.0.113.66/32', 'the printer\n# not a comment'),
      rule(1, 1, 'allow', '203.0.113.0/24', 'everybody: "here"'),
    ],
  },
  '/ip_restrictions': {
    field: 'ip_restrictions',
    rows: [
      resource('ipx', 2, '/ip_restrictions', { enforced: true, type: 'agent', ip_policies: [] }),
      resource('ipx', 1, '/ip_restrictions', {
        enforced: true,
        type: 'endpoints',
        ip_policies: [policy(1), policy(2)],
      }),
    ],
  },
  '/backends/static': {
    field: 'backends',
    rows: [
      backend('bkdst', 'static', 2, { address: 'two.example.net:443', tls: { enabled: true } }),
      backend('bkdst', 'static', 1, { description: 'one', address: 'one.example.net:8080', tls: { enabled: false } }),
    ],
  },
  '/backends/http_response': {
    field: 'backends',
    rows: [
      backend('bkdhr', 'http_response', 1, { body: 'Back soon', headers: { 'retry-after': '60' }, status_code: 503 }),
    ],
  },
  '/backends/weighted': {
    field: 'backends',
    rows: [
      backend('bkdwd', 'weighted', 2, { backends: { [id('bkdst', 1)]: 1, [id('bkdtg', 1)]: 1 } }),
      backend('bkdwd', 'weighted', 1, { backends: { [id('bkdst', 1)]: 90, [id('bkdst', 2)]: 10 } }),
    ],
  },
  '/backends/failover': {
    field: 'backends',
    rows: [backend('bkdfo', 'failover', 1, { backends: [id('bkdst', 1), id('bkdhr', 1)] })],
  },
  '/backends/tunnel_group': {
    field: 'backends',
    rows: [backend('bkdtg', 'tunnel_group', 1, { labels: { app: 'shop' }, tunnels: [] })],
  },
  '/reserved_domains': {
    field: 'reserved_domains',
    rows: [
      resource('rd', 3, '/reserved_domains', { domain: 'shop.ngrok.app', region: 'us', cname_target: null }),
      resource('rd', 2, '/reserved_domains', { domain: '*.imported.example.net', cname_target: 'x.ngrok-cname.com' }),
      resource('rd', 1, '/reserved_domains', { domain: 'imported.example.net', certificate_management_policy: null }),
    ],
  },
  '/edges/tcp': {
    field: 'tcp_edges',
    rows: [
      resource('edgtcp', 2, '/edges/tcp', {
        description: 'guarded',
        hostports: ['tcp.imported.example.net:20402'],
        backend: backendModule('bkdst', 2),
        ip_restriction: null,
        traffic_policy: { enabled: true, value: trafficPolicies.guarded },
      }),
      resource('edgtcp', 3, '/edges/tcp', {
        description: 'mail',
        hostports: ['tcp.imported.example.net:20403'],
        backend: backendModule('bkdst', 2),
        ip_restriction: null,
        traffic_policy: { enabled: true, value: trafficPolicies.mail },
      }),
      resource('edgtcp', 1, '/edges/tcp', {
        description: 'db',
        hostports: ['1.tcp.ngrok.io:20401', 'tcp.imported.example.net:20401'],
        backend: backendModule('bkdst', 1),
        ip_restriction: restricted(1),
        traffic_policy: null,
      }),
    ],
  },
  '/edges/https': {
    field: 'https_edges',
    rows: [
      resource('edghts', 1, '/edges/https', {
        description: 'shop',
        hostports: ['shop.imported.example.net:443', 'shop.ngrok.app:443'],
        mutual_tls: { enabled: true, certificate_authorities: [{ id: id('ca', 1), uri: '' }] },
        tls_termination: { enabled: true, terminate_at: 'edge', min_version: '1.2' },
        routes: [
          route(10, 'path_prefix', '/odd', {
            backend: backendModule('bkdst', 1),
            traffic_policy: { enabled: true, value: trafficPolicies.odd },
          }),
          route(9, 'path_prefix', '/closed', {
            backend: backendModule('bkdst', 1),
            policy: trafficPolicies.closed,
          }),
          route(8, 'path_prefix', '/old', {
            backend: backendModule('bkdst', 1),
            traffic_policy: { enabled: true, value: trafficPolicies.old },
          }),
          route(7, 'path_prefix', '/v2', {
            backend: backendModule('bkdst', 1),
            request_headers: { enabled: true, add: { 'X-A': 'route' }, remove: ['X-B'] },
            traffic_policy: { enabled: true, value: trafficPolicies.v2 },
          }),
          route(5, 'exact_path', '/sale', { backend: backendModule('bkdwd', 1) }),
          route(4, 'path_prefix', '/agents', { backend: backendModule('bkdtg', 1), ip_restriction: restricted(2) }),
          route(3, 'path_prefix', '/admin', {
            backend: backendModule('bkdst', 1),
            ip_restriction: restricted(1),
            oauth: { enabled: true, provider: { github: {} }, options_passthrough: false },
          }),
          route(2, 'path_prefix', '/api', {
            description: 'the API',
            backend: backendModule('bkdst', 2),
            ip_restriction: { ...restricted(1, 2), enabled: false },
            compression: { enabled: true },
            user_agent_filter: { enabled: true, allow: [], deny: ['(?i)curl/', '\\(bad\\.bot'] },
            request_headers: {
              enabled: true,
              add: { 'X-Env': 'prod', 'X-Client': ['$', '{conn.client_ip}'].join('') },
              remove: ['Cookie', 'X-Forwarded-For'],
            },
            response_headers: {
              enabled: true,
              add: { 'X-Frame-Options': 'DENY', 'X-Region': ['$', '{conn.server_region}'].join('') },
              remove: ['X-Powered-By', 'Connection'],
            },
          }),
          route(1, 'path_prefix', '/', { backend: backendModule('bkdfo', 1) }),
        ],
      }),
    ],
  },
  '/edges/tls': { field: 'tls_edges', rows: [] },
  '/endpoints': { field: 'endpoints', rows: [] },
  '/reserved_addrs': { field: 'reserved_addrs', rows: [] },
  '/tls_certificates': { field: 'tls_certificates', rows: [] },
  '/certificate_authorities': {
    field: 'certificate_authorities',
    rows: [
      resource('ca', 1, '/certificate_authorities', {
        ca_pem: `subject=Clients\n${clientAuthority1}${clientAuthority2}`,
        subject_common_name: 'Clients',
      }),
    ],
  },
  '/api_keys': {
    field: 'keys',
    rows: [resource('ak', 1, '/api_keys', { description: 'ci\nrm -rf', token: null, owner_id: id('usr', 1) })],
  },
  '/bot_users': { field: 'bot_users', rows: [] },
}

export const vendorToken = '2hrGzPLHppigkyy3AN8oHRBEk9W_SecretOfTheVendor'

type Sent = { status: number; headers?: Record<string, string>; body: unknown }
type Options = { pageSize?: number; answer?: (request: IncomingMessage) => Sent | undefined }

/** Serves the account in pages. `answer` may answer a request in another way. */
export async function startVendor(t: { after: (end: () => void) => void }, { pageSize = 2, answer }: Options = {}) {
  const requests: string[] = []
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', origin)
    requests.push(request.url ?? '')
    const sent = answer?.(request) ?? page(pathname, searchParams, request)
    response.writeHead(sent.status, { 'content-type': 'application/json', ...sent.headers })
    response.end(JSON.stringify(sent.body))
  })
  const page = (path: string, query: URLSearchParams, { headers }: IncomingMessage): Sent => {
    if (headers.authorization !== `Bearer ${vendorToken}` || headers['ngrok-version'] !== '2')
      return {
        status: 401,
        body: { error_code: 'ERR_NGROK_202', status_code: 401, msg: `no: ${headers.authorization}` },
      }
    const list = vendorAccount[path]
    if (!list) return { status: 404, body: { error_code: 'ERR_NGROK_404', status_code: 404, msg: 'not here' } }
    const { field, rows } = list
    const first = rows.findIndex((row) => row.id === query.get('before_id')) + 1
    const shown = rows.slice(first, first + pageSize)
    const hasMore = first + pageSize < rows.length
    const next = `${origin}${path}?before_id=${shown.at(-1)?.id}&limit=${pageSize}`
    return { status: 200, body: { [field]: shown, uri: origin + path, next_page_uri: hasMore ? next : null } }
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests }
}
