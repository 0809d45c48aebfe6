import assert from 'node:assert/strict'
import type { seededRandom } from '../deciders/cases.ts'
import type { Account as Caller } from '../harness/control_plane.ts'
import { authorityPems, mutualTlsOf } from './certificates.ts'
import type { Account, Backend, HttpsEdge, Route, Rule, TcpEdge } from './specification.ts'
import type { Upstreams } from './upstreams.ts'

export type Random = ReturnType<typeof seededRandom>
/** An account with what calls its API, and the names and ports that are its own. */
export type Tenant = { as: Caller; model: Account; number: number; tcpPort?: number; hasGroups: boolean }
type World = { random: Random; upstreams: Upstreams; expiring: () => string }

export const pick = <Item>(random: Random, items: readonly Item[]): Item => items[random(items.length)] as Item
const some = <Item>(random: Random, items: readonly Item[], least: number): Item[] => {
  const shuffled = items.map((item) => ({ item, at: random(1000) })).sort((a, b) => a.at - b.at)
  return shuffled.slice(0, least + random(items.length - least + 1)).map(({ item }) => item)
}

const ranges = [
  ...['0.0.0.0/0', '10.0.0.0/8', '10.1.0.0/16', '10.1.2.0/24', '10.1.2.3/32', '127.0.0.0/8', '127.0.1.0/24'],
  ...['192.0.2.128/25', '::/0', '2001:db8::/32', '2001:db8:1::/48', '2001:db8:1::7/128', '128.0.0.0/1'],
]
/** Inside and beside those ranges. */
export const sources = [
  ...['10.1.2.3', '10.1.2.4', '10.1.9.9', '10.9.9.9', '192.0.2.200', '192.0.2.100', '198.51.100.1'],
  ...['2001:db8:1::7', '2001:db8:1::8', '2001:db8:2::1', '2001:db9::1', '::ffff:10.1.2.3', '::ffff:192.0.2.200'],
]
export const localSources = ['127.0.1.7', '127.0.2.7']

const matches = ['/', '/admin', '/admin/open', '/api', '/api/v1', '/Docs', '/docs', '/a%20b', '/files']
const values = ['edge', 'a b', '100%', '"quoted"', 'x;y,z']

/** Creates what an account has, through the API, and keeps what the API returned. */
export async function createTenant(
  world: World,
  as: Caller,
  number: number,
  { tcpPort, hasGroups, hasWildcard }: { tcpPort?: number; hasGroups: boolean; hasWildcard: boolean },
): Promise<Tenant> {
  const { random } = world
  const model: Account = {
    id: as.accountId,
    policies: new Map(),
    restrictions: [],
    backends: new Map(),
    https: [],
    tcp: [],
  }
  const tenant: Tenant = { as, model, number, hasGroups, ...(tcpPort && { tcpPort }) }
  for (let policies = 2 + random(3); policies > 0; policies--) {
    const { id } = await call(as, 'POST', '/ip_policies', {})
    await replaceRules(world, tenant, id)
  }
  await createBackends(world, tenant)
  const names = hasWildcard
    ? [[`*.w${number}.example`], [`in.w${number}.example`, `a${number}.example`]]
    : [[`a${number}.example`], [`b${number}.example`, `c${number}.example`]]
  for (const each of names) await createHttpsEdge(world, tenant, each)
  for (let restrictions = random(3); restrictions > 0; restrictions--) await createRestriction(world, tenant)
  if (tcpPort) {
    await createTcpEdge(world, tenant, [`tcp${number}.example:${tcpPort}`])
    if (random(2)) await createTcpEdge(world, tenant, [`${pick(random, ['127.0.0.1', '[::1]'])}:${tcpPort}`])
  }
  return tenant
}

/** One random change of the account. */
export async function changeTenant(world: World, tenant: Tenant): Promise<void> {
  const { random } = world
  const { as, model } = tenant
  const edge = pick(random, model.https)
  const route = edge.routes[random(edge.routes.length || 1)]
  const restriction = model.restrictions[random(model.restrictions.length || 1)]
  const tcp = model.tcp[random(model.tcp.length || 1)]
  const changes: (() => Promise<unknown> | undefined)[] = [
    () => replaceRules(world, tenant, pick(random, [...model.policies.keys()])),
    async () => {
      if (!route) return createRoute(world, tenant, edge)
      const { match_type, match, ...fields } = routeFields(world, tenant)
      const changed = await call(as, 'PATCH', `/edges/https/${edge.id}/routes/${route.id}`, fields)
      Object.assign(route, routeOf(changed))
    },
    async () => {
      if (!route || edge.routes.length < 2) return createRoute(world, tenant, edge)
      await call(as, 'DELETE', `/edges/https/${edge.id}/routes/${route.id}`)
      edge.routes = edge.routes.filter((other) => other !== route)
    },
    () => createRoute(world, tenant, edge),
    async () => {
      const changed = await call(as, 'PATCH', `/edges/https/${edge.id}`, { mutual_tls: mutualTlsModule(world) })
      edge.mutual_tls = mutualTlsOf(changed.mutual_tls)
    },
    async () => {
      if (!restriction) return createRestriction(world, tenant)
      const enforced = !restriction.enforced
      await call(as, 'PATCH', `/ip_restrictions/${restriction.id}`, { enforced })
      restriction.enforced = enforced
    },
    async () => {
      if (!restriction) return
      await call(as, 'DELETE', `/ip_restrictions/${restriction.id}`)
      model.restrictions = model.restrictions.filter((other) => other !== restriction)
    },
    async () => {
      if (!tcp) return
      const changed = await call(as, 'PATCH', `/edges/tcp/${tcp.id}`, tcpFields(world, tenant))
      Object.assign(tcp, tcpOf(changed))
    },
    async () => {
      const other = pick(random, model.https)
      if (other === edge) return
      // The names change places: each must be free before the other edge can have it.
      const [first, second] = [edge.names, other.names]
      await call(as, 'PATCH', `/edges/https/${edge.id}`, { hostports: [] })
      await call(as, 'PATCH', `/edges/https/${other.id}`, { hostports: first.map((name) => `${name}:443`) })
      await call(as, 'PATCH', `/edges/https/${edge.id}`, { hostports: second.map((name) => `${name}:443`) })
      ;[edge.names, other.names] = [second, first]
    },
  ]
  await pick(random, changes)()
}

// biome-ignore lint/suspicious/noExplicitAny: resources as the API returns them, which the client has checked against openapi.json.
async function call(as: Caller, method: string, path: string, body?: object): Promise<any> {
  const answer = await as(method, path, body)
  assert.ok(answer.status < 300, `${method} ${path} ${JSON.stringify(body)}: ${answer.text}`)
  return answer.body
}

async function replaceRules({ random, expiring }: World, { as, model }: Tenant, policy: string): Promise<void> {
  const rules = some(random, ranges, 0)
    .slice(0, random(6))
    .map((cidr) => ({
      cidr,
      action: pick(random, ['allow', 'allow', 'deny']),
      expires_at: pick(random, [null, null, null, '2040-01-01T00:00:00Z', expiring()]),
    }))
  const path = `/ip_policies/${policy}/rules`
  await call(as, 'PUT', `${path}?allow_self_lockout=true`, { rules })
  const stored = (await call(as, 'GET', path)).rules
  model.policies.set(
    policy,
    stored.map(({ id, action, cidr, expires_at }: Rule) => ({ id, action, cidr, expires_at: expires_at ?? null })),
  )
}

async function createBackends({ random, upstreams }: World, { as, model, hasGroups, tcpPort }: Tenant): Promise<void> {
  const add = async (kind: string, body: object, backend: Backend): Promise<string> => {
    const { id } = await call(as, 'POST', `/backends/${kind}`, body)
    model.backends.set(id, backend)
    return id
  }
  const addStatic = (port: number, fields: { protocol?: 'http2'; send_proxy_protocol?: true } = {}) =>
    add(
      'static',
      { address: `127.0.0.1:${port}`, ...fields },
      { kind: 'static', port, isDead: port === upstreams.dead, protocol: fields.protocol ?? 'http1' },
    )
  const [first = 0, second = 0] = some(random, upstreams.http1, 2)
  const plain = [await addStatic(first), await addStatic(second)]
  if (random(2)) await addStatic(upstreams.http2, { protocol: 'http2' })
  await addStatic(upstreams.dead)
  const response = {
    status_code: pick(random, [200, 204, 404, 503]),
    headers: pick<Record<string, string>>(random, [{}, { 'Retry-After': '600' }, { 'Content-Type': 'text/html' }]),
    body: '',
  }
  if (response.status_code !== 204) response.body = pick(random, ['', 'Back at noon.'])
  const fixed = await add('http_response', response, { kind: 'http_response', ...response })
  if (hasGroups) {
    const weights = { [plain[0] as string]: pick(random, [0, 1, 10]), [plain[1] as string]: 10 }
    await add('weighted', { backends: weights }, { kind: 'weighted', backends: weights })
    const order = pick(random, [plain, [...plain, fixed]])
    await add('failover', { backends: order }, { kind: 'failover', backends: order })
  }
  if (tcpPort) {
    await addStatic(pick(random, upstreams.tcp))
    await addStatic(upstreams.proxied, { send_proxy_protocol: true })
  }
}

const isForTcp = ({ upstreams }: World, backend: Backend): boolean =>
  backend.kind === 'static' && [...upstreams.tcp, upstreams.proxied, upstreams.dead].includes(backend.port)
const isForHttp = (world: World, backend: Backend): boolean =>
  backend.kind !== 'static' || backend.port === world.upstreams.dead || !isForTcp(world, backend)

const enabled = (random: Random) => pick(random, [true, true, true, false])
function backendModule(world: World, { model }: Tenant, suits: typeof isForTcp): object | null {
  const ids = [...model.backends].filter(([, backend]) => suits(world, backend)).map(([id]) => id)
  return world.random(12) ? { enabled: enabled(world.random), backend_id: pick(world.random, ids) } : null
}
const policiesModule = ({ random }: World, { model }: Tenant): object | null =>
  random(2)
    ? {
        enabled: enabled(random),
        mode: pick(random, ['enforce', 'enforce', 'warn']),
        ip_policy_ids: some(random, [...model.policies.keys()], 1),
      }
    : null

function headersModule({ random }: World): object | null {
  if (random(2)) return null
  const add: Record<string, string> = {}
  for (const name of some(random, ['X-Env', 'X-Team', 'Host', 'X-Request-Id', 'X-Real-IP', 'Cookie'], 0).slice(0, 3))
    add[name] = name === 'Host' ? 'rewritten.test' : pick(random, values)
  const remove = some(random, ['Cookie', 'X-Secret', 'x-client', 'User-Agent', 'X-Request-Id'], 0)
    .slice(0, 3)
    .filter((name) => !(name in add))
  return { enabled: enabled(random), add, remove }
}

function responseHeadersModule({ random }: World): object | null {
  if (random(2)) return null
  const add: Record<string, string> = {}
  for (const name of some(random, ['X-From', 'Set-Cookie', 'Content-Type', 'X-Frame-Options', 'X-Edge'], 0).slice(0, 3))
    add[name] = pick(random, values)
  const remove = some(random, ['x-from', 'Retry-After', 'X-Edge', 'Content-Type'], 0).slice(0, 2)
  return { enabled: enabled(random), add, remove }
}

const filterModule = ({ random }: World, entries: readonly string[]): object | null => {
  const [allow, deny] = [some(random, entries, 0), some(random, entries, 1)]
  const lists = pick(random, [{ deny }, { allow: deny }, { allow, deny }])
  return random(8) ? null : { enabled: enabled(random), ...lists, mode: pick(random, ['enforce', 'warn']) }
}

const corsModule = ({ random }: World): object | null =>
  random(3)
    ? null
    : {
        enabled: enabled(random),
        ...pick(random, [
          { allowed_origins: ['*'] },
          { allowed_origins: ['https://page.example', 'https://*.page.example'], allow_credentials: random(2) === 0 },
        ]),
        allowed_methods: pick(random, [[], ['PUT', 'DELETE']]),
        allowed_headers: pick(random, [[], ['X-Env', 'x|%']]),
        exposed_headers: pick(random, [[], ['X-From']]),
        max_age_seconds: pick(random, [0, 600]),
      }

/** Never reached: how often each source has come in a window is not known here. */
const rateLimitModule = ({ random }: World): object | null =>
  random(4)
    ? null
    : {
        enabled: enabled(random),
        requests: 1_000_000,
        per_seconds: pick(random, [60, 3_600]),
        key: pick(random, ['source', 'route', 'header:X-Env', 'header:User-Agent']),
        scope: pick(random, ['node', 'cell']),
      }

const redirectModule = ({ random }: World): object | null =>
  random(6)
    ? null
    : {
        enabled: enabled(random),
        to: pick(random, ['https://new.example', 'http://new.example:81/x/']),
        status_code: pick(random, [301, 308]),
        keep_path: random(2) === 0,
        keep_query: random(2) === 0,
      }

const rewriteModule = ({ random }: World): object | null => {
  const fields = {
    strip_prefix: pick(random, [null, '/admin', '/api', '/api/v1', '/docs']),
    add_prefix: pick(random, [null, '/added', '/v2/x']),
    host: pick(random, [null, 'inner.test']),
  }
  const isEmpty = Object.values(fields).every((field) => field === null)
  return random(3) || isEmpty ? null : { enabled: enabled(random), ...fields }
}

const mutualTlsModule = ({ random }: World): object | null =>
  random(3)
    ? null
    : {
        enabled: enabled(random),
        mode: pick(random, ['required', 'required', 'optional']),
        certificate_authorities: some(random, authorityPems, 1),
      }

const routeFields = (world: World, tenant: Tenant) => ({
  match_type: pick(world.random, ['exact_path', 'path_prefix', 'path_prefix']),
  match: pick(world.random, matches),
  encoded_slashes: pick(world.random, ['reject', 'allow']),
  path_variants: pick(world.random, ['restrict', 'restrict', 'ignore']),
  websocket: world.random(3) > 0,
  backend: backendModule(world, tenant, isForHttp),
  ip_restriction: policiesModule(world, tenant),
  request_headers: headersModule(world),
  response_headers: responseHeadersModule(world),
  user_agent_filter: filterModule(world, ['SECOND', 'd-o', 'curl/']),
  cors: corsModule(world),
  methods: filterModule(world, ['GET', 'POST', 'HEAD', 'PURGE']),
  rate_limit: rateLimitModule(world),
  redirect: redirectModule(world),
  rewrite: rewriteModule(world),
})
const tcpFields = (world: World, tenant: Tenant) => ({
  backend: backendModule(world, tenant, isForTcp),
  ip_restriction: policiesModule(world, tenant),
  rate_limit: world.random(2)
    ? null
    : {
        ...{ connections: 1_000_000, per_seconds: 60, key: pick(world.random, ['source', 'edge']) },
        scope: pick(world.random, ['node', 'cell']),
      },
})
const routeOf = (route: Route): Route => ({
  id: route.id,
  match_type: route.match_type,
  match: route.match,
  encoded_slashes: route.encoded_slashes,
  path_variants: route.path_variants,
  websocket: route.websocket,
  backend: route.backend,
  ip_restriction: route.ip_restriction,
  request_headers: route.request_headers,
  response_headers: route.response_headers,
  user_agent_filter: route.user_agent_filter,
  cors: route.cors,
  methods: route.methods,
  redirect: route.redirect,
  rewrite: route.rewrite,
})
const tcpOf = ({ id, hostports, backend, ip_restriction }: TcpEdge): TcpEdge => ({
  id,
  hostports,
  backend,
  ip_restriction,
})

async function createHttpsEdge(world: World, tenant: Tenant, names: string[]): Promise<void> {
  const hostports = names.map((name) => `${name}:443`)
  const made = await call(tenant.as, 'POST', '/edges/https', { hostports, mutual_tls: mutualTlsModule(world) })
  const edge: HttpsEdge = { id: made.id, names, routes: [], mutual_tls: mutualTlsOf(made.mutual_tls) }
  tenant.model.https.push(edge)
  if (world.random(4)) await createRoute(world, tenant, edge, { match_type: 'path_prefix', match: '/' })
  for (let routes = 1 + world.random(5); routes > 0; routes--) await createRoute(world, tenant, edge)
}

async function createRoute(world: World, tenant: Tenant, edge: HttpsEdge, place: object = {}): Promise<void> {
  const fields = { ...routeFields(world, tenant), ...place }
  if (edge.routes.some(({ match_type, match }) => match_type === fields.match_type && match === fields.match)) return
  edge.routes.push(routeOf(await call(tenant.as, 'POST', `/edges/https/${edge.id}/routes`, fields)))
}

async function createTcpEdge(world: World, tenant: Tenant, hostports: string[]): Promise<void> {
  const edge = await call(tenant.as, 'POST', '/edges/tcp', { hostports, ...tcpFields(world, tenant) })
  tenant.model.tcp.push(tcpOf(edge))
}

async function createRestriction({ random }: World, { as, model }: Tenant): Promise<void> {
  const ip_policy_ids = some(random, [...model.policies.keys()], 1)
  const enforced = random(3) === 0
  const { id } = await call(as, 'POST', '/ip_restrictions', { type: 'endpoints', enforced, ip_policy_ids })
  model.restrictions.push({ id, enforced, ip_policy_ids })
}
