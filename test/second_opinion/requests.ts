import { localSources, pick, type Random, sources, type Tenant } from './accounts.ts'
import { type ClientName, clientNames } from './certificates.ts'
import { canonicalSource, type Header, type HttpRequest, type TcpConnection } from './specification.ts'
import { numberHeader } from './upstreams.ts'

type Way = 'direct' | 'proxy'
export type NumberedRequest = HttpRequest & { number: string }
/** A connection and what is sent over it. With the PROXY protocol it comes from any address, otherwise from this machine. */
export type Visit = {
  way: Way
  sourceAsSent: string
  serverName: string
  /** Whose certificate the client has. */
  client: ClientName
  requests: NumberedRequest[]
}
export type TcpVisit = TcpConnection & { way: Way; sourceAsSent: string; number: string }

/** What requests with a body send. */
export const body = 'hello'
const methods = ['GET', 'GET', 'GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS']
let numbers = 0

export function makeVisit(random: Random, tenant: Tenant, tenants: readonly Tenant[], requests: number): Visit {
  const way = pick(random, ['direct', 'proxy', 'proxy'] as const)
  const sourceAsSent = pick(random, way === 'proxy' ? sources : localSources)
  const serverName = hostOf(random, tenant)
  const client = pick(random, clientNames)
  const protocol = pick(random, ['1.1', '2'] as const)
  const make = (): NumberedRequest => {
    const number = String(++numbers)
    const headers = headersOf(random, protocol)
    const isUpgrade = headers.some(([name]) => name === 'Upgrade')
    const method = isUpgrade ? 'GET' : pick(random, [...methods, random(5) ? 'PUT' : 'TRACE'])
    if (method === 'POST' || method === 'PUT') headers.push(['Content-Length', String(body.length)])
    return {
      number,
      protocol,
      source: canonicalSource(sourceAsSent),
      serverName,
      client,
      host: spelled(random, random(30) ? serverName : hostOf(random, pick(random, [tenant, pick(random, tenants)]))),
      method,
      target: targetOf(random),
      headers: [[numberHeader, number], ...headers],
    }
  }
  return { way, sourceAsSent, serverName, client, requests: Array.from({ length: requests }, make) }
}

export function makeTcpVisit(random: Random, port: number): TcpVisit {
  const way = pick(random, ['direct', 'proxy', 'proxy'] as const)
  const sourceAsSent = pick(random, way === 'proxy' ? sources : localSources)
  // ::1 names clients by the PROXY protocol only, so a direct connection goes to the other address.
  const address = way === 'proxy' ? pick(random, ['127.0.0.1', '[::1]']) : '127.0.0.1'
  return { way, sourceAsSent, source: canonicalSource(sourceAsSent), address, port, number: String(++numbers) }
}

function hostOf(random: Random, { model }: Tenant): string {
  const names = model.https.flatMap((edge) => edge.names)
  return pick(random, names).replace('*', () => pick(random, ['x', 'in', 'deep.er']))
}
function spelled(random: Random, name: string): string {
  const spellings = [name.toUpperCase(), `${name}:443`, `${name}:8443`, `${name}.`, `${name}..`, `unknown.${name}`, '-']
  return random(12) ? name : pick(random, spellings)
}

const segments = ['admin', 'open', 'api', 'v1', 'Docs', 'docs', 'a%20b', 'files', 'x']
function targetOf(random: Random): string {
  const depth = random(4)
  let path = `/${Array.from({ length: depth }, () => pick(random, segments)).join('/')}`
  if (random(3) === 0) path = pick(random, ['/admin', '/admin/open', '/api/v1/x', '/docs', '/a%20b'])
  if (random(5) === 0) path = variantOf(random, path)
  return path + pick(random, ['', '', '', '?q=1', '?a=/../b;c', '?'])
}

function variantOf(random: Random, path: string): string {
  const at = 1 + random(path.length)
  const letter = path[1] ?? 'x'
  const encoded = `%${letter.charCodeAt(0).toString(16)}`
  return pick(random, [
    path.toUpperCase().replaceAll('%20', '%20'),
    `${path}/`,
    `${path};x=1`,
    `/;x${path}`,
    `//${path.slice(1)}`,
    `/${encoded}${path.slice(2)}`,
    `/%25${encoded.slice(1)}${path.slice(2)}`,
    `/x/..${path}`,
    `/.${path}`,
    `${path}/%2e%2e/api`,
    `${path}//api`,
    `${path}/../..`,
    `${path.slice(0, at)}%2F${path.slice(at)}`,
    `${path}%5Cx`,
    `${path}//x`,
    `${path}x`,
  ])
}

const origins = [
  ...['https://page.example', 'https://page.example', 'https://a.page.example', 'https://a.b.page.example'],
  ...['https://*.page.example', 'http://page.example', 'https://evil.example', 'null'],
]

function headersOf(random: Random, protocol: HttpRequest['protocol']): Header[] {
  const headers: Header[] = [
    ['User-Agent', 'second-opinion'],
    ['User_Agent', 'curl/8'],
    ['Cookie', 'a=1'],
    ['X-Client', 'mine'],
    ['x-env', 'forged'],
    ['X_Env', 'forged'],
    ['X-Secret', 'mine'],
    ['X-Request-Id', 'forged'],
    ['X-Forwarded-For', '10.1.2.3'],
    ['X-Forwarded-Host', 'forged.test'],
    ['X-Forwarded-Proto', 'http'],
    ['X-Real-IP', '10.1.2.3'],
    ['X-Original-URL', '/admin'],
    ['X-Client-Certificate-Verification', 'verified'],
    ['X_Client_Certificate_Subject', 'CN=forged'],
    ['traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
    ['Accept', '*/*'],
  ]
  const chosen = headers.filter(() => random(5) === 0)
  if (random(3) === 0) chosen.push(['Origin', pick(random, origins)])
  if (random(2)) chosen.push(['Access-Control-Request-Method', 'PUT'])
  if (protocol === '1.1' && random(12) === 0)
    chosen.push(
      ...pick<Header[]>(random, [
        [['Connection', 'keep-alive, X-Client, X-Env']],
        [
          ['Connection', 'Upgrade'],
          ['Upgrade', 'websocket'],
          ['Sec-WebSocket-Version', '13'],
          ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
        ],
        [
          ['Connection', 'Upgrade'],
          ['Upgrade', 'h2c'],
        ],
        [['Keep-Alive', '300']],
        [['Proxy-Authorization', 'Basic x']],
      ]),
    )
  return chosen
}
