import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import type { Scope } from '../../harness/control_plane.ts'
import { type Edge, id, startEdge } from '../proxy_harness.ts'

const certificates = ['app.example.com', '*.wild.example.com', 'other.example.com']

const native = {
  add: [
    ['X-User', 'edge'],
    ['X-Empty', ''],
    ['x_under', 'u'],
  ] as [string, string][],
  remove: ['X-Debug', 'Cookie', 'x_gone'],
}
const onlyLua = {
  add: [
    ['Host', 'inner.test'],
    ['X-User', 'edge'],
  ] as [string, string][],
  remove: ['X-Debug'],
}
const about = {
  add: [
    ['X-Request-Id', 'mine'],
    ['X-Forwarded-Port', '1'],
  ] as [string, string][],
  remove: ['X.Forwarded.Proto', 'Forwarded', 'X-Real-IP'],
}

/** One of each list, and one that the edge's own answers get too. */
const onResponses = {
  add: [
    ['X-Reached', 'replaced'],
    ['Set-Cookie', 'a=b'],
    ['X-Frame-Options', 'DENY'],
  ] as [string, string][],
  remove: ['Content-Type'],
}

const moved = { to: 'https://new.example.com/x', status_code: 307, keep_path: true, keep_query: true }

/** For requests.ts: what the routes below look at. */
export const operations = {
  prefixes: [
    ...[
      '/',
      '/',
      '/plain',
      '/exact',
      '/headers',
      '/headers',
      '/lua',
      '/about',
      '/policy',
      '/policy',
      '/both',
      '/denied',
    ],
    ...['/', '/plain', '/POLICY', '/policy.', '/index.php/policy', '/policy/open', '/policy/OPEN', '/case'],
    ...[
      '/response',
      '/response-policy',
      '/no-response',
      '/answer',
      '/answer-both',
      '/answer-response',
      '/filtered',
      '/rated',
      '/moved',
      '/rewritten',
      '/rewritten/deep',
      '/cors',
      '/cors-both',
    ],
    ...['/slow', '/Files', '/files', '/files/open', '/FILES', '/shop', '/shop/', '/Shop/'],
    ...['/restricted', '/warned', '/slashes', '/par;am', '/no-websockets', '/none', '/lost', '/unknown', '/stranger'],
  ],
  names: ['X-User', 'X-Empty', 'X-Under', 'X-Debug', 'Cookie', 'X-Gone', 'X-Forwarded-Port', 'X-Request-Id', 'Host-X'],
}

/** The same accounts, policies, edges and routes for both proxies, and an upstream for each. */
export async function startWorlds(scope: Scope): Promise<{ fast: World; careful: World }> {
  const [fast, careful] = [
    await startEdge(scope, { certificates }),
    await startEdge(scope, { certificates, isCarefulOnly: true }),
  ]
  const ids = new Map<string, string>()
  const worlds = { fast: await furnish(scope, fast, ids), careful: await furnish(scope, careful, ids) }
  return worlds
}

export type World = { edge: Edge; reached: () => number }

async function furnish(scope: Scope, edge: Edge, ids: Map<string, string>): Promise<World> {
  const upstream = await startEcho(scope)
  /** The same thing has the same id in both worlds: events and keys can be compared. */
  const named = (prefix: Parameters<typeof id>[0], name: string): string => {
    const key = `${prefix} ${name}`
    const known = ids.get(key) ?? id(prefix)
    ids.set(key, known)
    return known
  }
  const policy = async (name: string, ...rules: string[]) => {
    await edge.put({ [`policy.${named('ipp', name)}`]: await edge.writePolicyFile(...rules) })
    return named('ipp', name)
  }
  const office = await policy('office', 'allow 127.0.0.1', 'allow 127.0.0.2')
  const denyAll = await policy('denyAll', 'deny 0.0.0.0/0')
  const account = (name: string) => named('ac', name)
  const backend = named('bkdst', 'echo')
  const [app, other] = [named('edghts', 'app'), named('edghts', 'other')]
  const routes: Record<string, unknown> = {}
  const route = (match: string, more: object = {}, of = app) => {
    routes[`route.${named('edghtsrt', `${of} ${match}`)}`] = {
      ...{
        account: account('plain'),
        edge: of,
        match_type: 'path_prefix',
        match,
        backend,
        policies: null,
        headers: null,
      },
      ...more,
    }
  }
  route('/')
  route('/', {}, other)
  route('/plain')
  route('/exact', { match_type: 'exact_path', headers: native })
  route('/headers', { headers: native })
  route('/lua', { headers: onlyLua })
  route('/about', { headers: about })
  route('/policy', { policies: [office] })
  route('/policy/open')
  route('/Case', { policies: [office], path_variants: 'ignore' })
  route('/both', { policies: [office], headers: native })
  route('/denied', { policies: [denyAll], headers: onlyLua })
  route('/slow', { timeouts: { response_seconds: 30 }, policies: [office], headers: native })
  // Restricted routes that some servers find under another spelling, too.
  route('/Files', { policies: [denyAll] }, other)
  route('/files/open', {}, other)
  route('/shop/', { match_type: 'exact_path', policies: [denyAll] }, other)
  route('/restricted', { account: account('restricted') })
  route('/warned', { account: account('warned'), headers: native })
  route('/slashes', { encoded_slashes: 'allow' })
  route('/par;am', { policies: [office] })
  route('/no-websockets', { websocket: false })
  route('/none', { backend: null })
  route('/lost', { backend: named('bkdst', 'lost') })
  route('/unknown', { policies: [named('ipp', 'unknown')] })
  const response = named('bkdhr', 'maintenance')
  route('/response', { backend: response, headers: native })
  route('/response-policy', { backend: response, policies: [office] })
  route('/answer', { response_headers: onResponses })
  route('/answer-both', { response_headers: onResponses, headers: native, policies: [office] })
  route('/answer-response', { response_headers: onResponses, backend: response })
  const filter = { allow: [], mode: 'enforce' }
  route('/filtered', {
    user_agent_filter: { ...filter, deny: ['(A; B'] },
    methods: { ...filter, allow: ['GET', 'POST'], deny: [], mode: 'warn' },
    headers: native,
  })
  route('/rated', { rate_limit: { requests: 5, per_seconds: 3_600, key: 'route', mode: 'warn' }, policies: [office] })
  route('/moved', { redirect: moved, response_headers: onResponses, policies: [office] })
  route('/rewritten', { rewrite: { strip_prefix: '/rewritten', add_prefix: null, host: 'inner.test' } })
  route('/rewritten/deep', {
    rewrite: { strip_prefix: '/rewritten', add_prefix: '/in', host: null },
    headers: native,
    policies: [office],
  })
  const cors = {
    ...{ allowed_methods: ['PUT'], allowed_headers: [], exposed_headers: ['X-Reached'], max_age_seconds: 60 },
    ...{ allowed_origins: ['https://page.example', 'https://*.page.example'], allow_credentials: true },
  }
  route('/cors', { cors })
  route('/cors-both', {
    cors: { ...cors, allowed_origins: ['*'], allow_credentials: false },
    ...{ response_headers: onResponses, headers: native, policies: [office] },
  })
  route('/no-response', { backend: named('bkdhr', 'lost') })
  const set = (name: string, enforced: boolean) => ({ id: named('ipx', name), enforced, policies: [office] })
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
    [`response.${response}`]: { status: 418, headers: [['Content-Type', 'text/x-tea']], body: 'tea\n' },
    [`https.${app}`]: { hostports: ['app.example.com:443', '*.wild.example.com:443'] },
    [`https.${other}`]: { hostports: ['other.example.com:443'] },
    [`restrictions.${account('restricted')}`]: { sets: [set('strict', true)] },
    [`restrictions.${account('warned')}`]: { sets: [set('trial', false)] },
    ...routes,
  })
  // An account whose restrictions have not arrived.
  const stranger = named('edghtsrt', 'stranger')
  const [entry] = edge
    .all()
    .filter(({ map, value }) => map === 'route' && value.startsWith(named('edghtsrt', `${app} /plain`)))
  if (entry) {
    const value = entry.value.replace(/^[^|]+\|[^|]+/, `${stranger}|${account('stranger')}`)
    await edge.proxy.apply({ set: [{ map: 'route', key: `${app}/stranger/`, value }], del: [] })
  }
  return { edge, reached: upstream.reached }
}

/** Answers each request with the very bytes of it that arrived. */
async function startEcho(scope: Scope): Promise<{ port: number; reached: () => number }> {
  const sockets = new Set<Socket>()
  let reached = 0
  const server: Server = createServer((socket) => {
    sockets.add(socket)
    let text = ''
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      for (let length = requestLength(text); length > 0; length = requestLength(text)) {
        const request = text.slice(0, length)
        text = text.slice(length)
        reached++
        const isHead = request.startsWith('HEAD ')
        const head = `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\nX-Reached: yes\r\n\r\n`
        socket.write(Buffer.from(`${head}${isHead ? '' : request}`, 'latin1'))
      }
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  scope.after(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port: (server.address() as { port: number }).port, reached: () => reached }
}

/** Length of the first request in these bytes; 0 while it is not complete. */
function requestLength(text: string): number {
  const end = text.indexOf('\r\n\r\n') + 4
  if (end < 4) return 0
  const head = text.slice(0, end)
  if (/^transfer-encoding: chunked\r$/im.test(head)) {
    const last = text.indexOf('0\r\n\r\n', end)
    return last < 0 ? 0 : last + 5
  }
  const length = end + Number(/^content-length: (\d+)\r$/im.exec(head)?.[1] ?? 0)
  return text.length < length ? 0 : length
}
