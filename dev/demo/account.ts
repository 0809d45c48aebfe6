// The demonstration's account, created through the API as by several people, so that the history has names.
import { execFileSync } from 'node:child_process'
import { abuser, host, office, partner, scraper } from './traffic.ts'
import type { Upstreams } from './upstreams.ts'

type Call = (method: string, path: string, body?: object) => Promise<{ id: string; token: string }>

const callerFor =
  (baseUrl: string, token: string): Call =>
  async (method, path, body) => {
    const response = await fetch(baseUrl + path, {
      method,
      headers: { authorization: `Bearer ${token}`, 'service-version': '2', 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
    if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`)
    return response.status === 204 ? { id: '', token: '' } : ((await response.json()) as { id: string; token: string })
  }

type Options = { baseUrl: string; token: string; upstreams: Upstreams; tcpPort: number }

/** Resolves to the later changes, which need traffic to have a visible effect. */
export async function makeDemoAccount({ baseUrl, token, upstreams, tcpPort }: Options) {
  const admin = callerFor(baseUrl, token)
  const { helen, marcus } = await makePeople(baseUrl, admin)
  const policies = await makePolicies(marcus)
  const backends = await makeBackends(helen, upstreams)
  const routes = await makeEdges(helen, policies, backends, tcpPort)
  await makeTheRest(admin, policies, routes)
  return async () => {
    await helen('PATCH', `/backends/weighted/${backends.pool}`, {
      backends: { [backends.first]: 100, [backends.second]: 20 },
    })
    await marcus('PUT', `/ip_policies/${policies.partners}/rules`, {
      rules: ['allow 127.0.0.41 # Meridian Freight, new address', 'deny 127.0.0.43 # reported for abuse'].map(toRule),
    })
  }
}

const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()

async function makePeople(baseUrl: string, admin: Call) {
  const colleague = async (name: string, role: string) => {
    const { id } = await admin('POST', '/users', { name, email: `${name.toLowerCase()}@outdoor.example`, role })
    const { token } = await admin('POST', '/api_keys', { owner_id: id, description: `sign-in of ${name}` })
    return callerFor(baseUrl, token)
  }
  const [helen, marcus] = [await colleague('Helen', 'admin'), await colleague('Marcus', 'member')]
  await colleague('Peter', 'viewer')
  const bot = await admin('POST', '/bot_users', { name: 'deploy pipeline' })
  const key = (body: object) => admin('POST', '/api_keys', body)
  await key({ description: 'Grafana', scopes: ['*.get', '*.list'], expires_at: inDays(330) })
  await key({ description: 'Deploys', owner_id: bot.id, allowed_cidrs: ['192.0.2.16/28'], expires_at: inDays(3) })
  return { helen, marcus }
}

/** In the form of a rule list: 'deny 192.0.2.7 # reported'. */
const toRule = (line: string) => {
  const [, action, cidr, description] = /^(\w+) (\S+) # (.*)$/.exec(line) ?? []
  return { action, cidr, description }
}

async function makePolicies(as: Call) {
  const policy = async (description: string, ...lines: string[]) => {
    const { id } = await as('POST', '/ip_policies', { description })
    await as('PUT', `/ip_policies/${id}/rules`, { rules: lines.map(toRule) })
    return id
  }
  return {
    offices: await policy(
      'Offices and VPN exits',
      `allow ${office} # Berlin office`,
      'allow 203.0.113.24/29 # VPN exits',
    ),
    partners: await policy(
      'Partner networks',
      `allow ${partner} # Meridian Freight, order sync`,
      'allow 198.51.100.128/26 # Bluebird Payments',
      'allow 198.51.100.160/28 # Bluebird Payments, EU',
      'deny 127.0.0.43 # reported for abuse',
    ),
    feed: await policy(
      'Threat feed',
      'allow 0.0.0.0/0 # everyone else',
      `deny ${abuser} # credential stuffing`,
      ...Array.from({ length: 40 }, (_, n) => `deny 203.0.113.${n * 6} # feed entry ${n}`),
    ),
    trial: await policy('Without scrapers', 'allow 127.0.0.0/8 # visitors', `deny ${scraper} # scraper`),
  }
}
type Policies = Awaited<ReturnType<typeof makePolicies>>

async function makeBackends(as: Call, { first, second, api, search, orders, gone }: Upstreams) {
  const health_check = { type: 'http', path: '/healthz', interval_seconds: 2 }
  const tcp = { type: 'tcp', interval_seconds: 2 }
  const server = async (description: string, address: string, check: object) =>
    (await as('POST', '/backends/static', { description, address, health_check: check })).id
  const [one, two] = [
    await server('Storefront 1', first, health_check),
    await server('Storefront 2', second, health_check),
  ]
  const billing = await server('Billing', gone, tcp)
  const pool = await as('POST', '/backends/weighted', {
    description: 'Storefront',
    backends: { [one]: 100, [two]: 100 },
  })
  return {
    ...{ first: one, second: two, pool: pool.id, billing },
    api: await server('Public API', api, health_check),
    search: await server('Search', search, health_check),
    orders: await server('Orders database', orders, tcp),
  }
}
type Backends = Awaited<ReturnType<typeof makeBackends>>

async function makeEdges(as: Call, policies: Policies, backends: Backends, tcpPort: number) {
  const edge = await as('POST', '/edges/https', { description: 'Shop', hostports: [`${host}:443`] })
  const route = async (match: string, backend_id: string, more: object = {}) =>
    (
      await as('POST', `/edges/https/${edge.id}/routes`, {
        ...{ match_type: 'path_prefix', match, backend: { backend_id }, ...more },
      })
    ).id
  const restrictedTo = (...ip_policy_ids: string[]) => ({ ip_restriction: { ip_policy_ids } })
  await route('/', backends.pool, { request_headers: { add: { 'X-Shop': 'de' }, remove: ['Cookie'] } })
  await route('/search/', backends.search, { rate_limit: { requests: 30, per_seconds: 60 } })
  await route('/checkout/', backends.billing)
  await route('/admin', backends.pool, restrictedTo(policies.offices))
  const toApi = await route('/api/', backends.api, restrictedTo(policies.offices, policies.partners))
  await as('POST', '/edges/https', { description: 'Grafana', hostports: ['grafana.example:443'] })
  await as('POST', '/edges/tcp', {
    description: 'Orders database',
    hostports: [`db.example:${tcpPort}`],
    backend: { backend_id: backends.orders },
    ...restrictedTo(policies.offices),
  })
  return { toApi }
}

async function makeTheRest(admin: Call, policies: Policies, { toApi }: { toApi: string }): Promise<void> {
  const restriction = (description: string, policy: string, enforced: boolean) =>
    admin('POST', '/ip_restrictions', { type: 'endpoints', description, ip_policy_ids: [policy], enforced })
  await restriction('Block known abusers', policies.feed, true)
  await restriction('No scrapers (trial)', policies.trial, false)
  await admin('POST', '/access_tests', {
    ...{ description: 'The Berlin office reaches the API', address: office, expect: 'allowed' },
    target: { type: 'route', route_id: toApi, path: '/api/v2/stock' },
  })
  for (const rule of [
    { kind: 'backend_down', for_seconds: 15 },
    { kind: 'errors', percent: 5, window_minutes: 5, for_seconds: 0 },
    { kind: 'newly_refused', for_seconds: 0 },
    { kind: 'certificate_failing', description: 'Renewal fails or is late' },
  ])
    await admin('POST', '/alert_rules', rule)
  // Nothing listens there, so its page shows a failing delivery.
  await admin('POST', '/webhook_destinations', {
    url: 'https://hooks.invalid/audit',
    description: 'Security monitoring',
  })
  await admin('POST', '/reserved_domains', { domain: host, description: 'The shop' })
  await admin('POST', '/tls_certificates', { description: 'Partner portal', ...newCertificate('partners.example', 6) })
}

function newCertificate(name: string, days: number) {
  const key = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', String(days)]
  const pem = execFileSync(
    'openssl',
    [...key, '-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`, '-keyout', '-'],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
  )
  const [private_key_pem, certificate_pem] = [
    /-----BEGIN PRIVATE[\s\S]+?END PRIVATE KEY-----/,
    /-----BEGIN CERT[\s\S]+?END CERTIFICATE-----/,
  ].map((part) => part.exec(pem)?.[0])
  return { private_key_pem, certificate_pem }
}
