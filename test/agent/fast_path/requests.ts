import { random, randomBelow } from '../../harness/random.ts'
import { operations } from './world.ts'

export type Version = 'HTTP/1.1' | 'HTTP/2'
export type GeneratedRequest = {
  version: Version
  /** Address of the client and the name in its TLS handshake: together they say which connections can carry it. */
  from: string
  servername: string
  method: string
  host: string
  target: string
  headers: [name: string, value: string][]
  body: string
}

const pick = <Item>(items: readonly Item[]): Item => items[randomBelow(items.length)] as Item
const chance = (share: number): boolean => random() < share
const some = <Item>(most: number, make: () => Item): Item[] => Array.from({ length: randomBelow(most + 1) }, make)

const methods = ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'POST', 'PATCH', 'FOO', 'CONNECT', 'TRACE']
const servernames = ['app.example.com', 'app.example.com', 'app.example.com', 'x.wild.example.com', 'other.example.com']
const oddHosts = [
  'APP.example.com',
  'app.example.com:443',
  'app.example.com.',
  'a..b',
  'nowhere.test',
  '',
  '[::1]',
  '*',
]

function host(servername: string): string {
  if (chance(0.85)) return servername
  return chance(0.3) ? pick(servernames) : pick(oddHosts)
}

/** What stands between the segments of a path, and instead of letters. */
const oddParts = [
  '%61',
  '%2f',
  '%2F',
  '%5c',
  '\\',
  ';',
  ';x=1',
  '%3b',
  '//',
  '/./',
  '/../',
  '/..',
  '/.',
  '%2e%2e',
  '%',
  '%zz',
]
const otherParts = [
  '%c3%a9',
  '\xe9',
  '"',
  '{',
  '|',
  '^',
  '~',
  '!',
  "'",
  '(',
  '*',
  '+',
  ',',
  ':',
  '=',
  '@',
  '&',
  '$',
  '.',
]

function path(): string {
  const parts = [pick(operations.prefixes), ...some(2, () => `/${pick(['a', 'b1', 'x.css', 'A-_~', ''])}`)]
  if (chance(0.15)) parts.splice(randomBelow(parts.length + 1), 0, pick([...oddParts, ...otherParts]))
  if (chance(0.05)) parts.push(pick(oddParts), pick(operations.prefixes))
  const text = parts.join('')
  return text.startsWith('/') ? text : `/${text}`
}
const query = (): string => (chance(0.3) ? `?${pick(['', 'a=b', 'p=/../admin', 'x=%2f%zz', 'q=a;b', '?'])}` : '')

const ordinary: [string, () => string][] = [
  ['Accept', () => pick(['*/*', 'text/html', ''])],
  ['User-Agent', () => 'generated/1.0 (a; b) "c"'],
  ['Cookie', () => `session=${randomBelow(1e6)}; other=\xe9|%0d%0a`],
  ['Accept-Encoding', () => 'gzip, br'],
  ['Content-Type', () => 'text/plain'],
  ['Authorization', () => 'Bearer x'],
  ['X-Custom', () => pick(['', 'a', '%[src]', '\\x0d\\x0aX-Evil: 1', 'x'.repeat(randomBelow(300))])],
  ['Origin', () => pick(['https://page.example', 'https://a.page.example', 'https://evil.example', 'null', ''])],
  ['Access-Control-Request-Method', () => 'PUT'],
  ['Referer', () => 'https://app.example.com/..'],
]
const forbidden = [
  ...['Connection', 'Keep-Alive', 'Proxy-Authorization', 'Proxy-X', 'TE', 'Trailer', 'Upgrade', 'X-Forwarded-For'],
  ...['X-Forwarded-Proto', 'X-Forwarded-Host', 'X-Forwarded-Port', 'Forwarded', 'X-Real-IP', 'X-Request-Id'],
]
/** Near misses, which pass unchanged. */
const harmless = [
  'Connections',
  'X-Forwarded',
  'Te2',
  'Trailers',
  'X-Real-IPs',
  'Proxy',
  'X-Requests-Id',
  'Upgrade-Insecure-Requests',
]
const connectionValues = [
  'keep-alive',
  'close',
  'Keep-Alive',
  'keep-alive, x-custom',
  'upgrade',
  'x-user',
  'te',
  '',
  'host',
]

/** In another case, or with another character for a hyphen. */
function disguised(name: string): string {
  if (chance(0.5)) return name
  return name.replaceAll(/[a-z-]/gi, (letter) => {
    if (letter === '-') return chance(0.3) ? pick(['_', '.', '!', '~', '|', '-']) : '-'
    return chance(0.1) ? letter.toUpperCase() : letter
  })
}

function header(): [string, string] {
  const kind = random()
  if (kind < 0.74) {
    const [name, value] = pick(ordinary)
    return [name, value()]
  }
  if (kind < 0.8)
    return pick([
      ['Connection', 'keep-alive'],
      ['TE', 'trailers'],
      ['Connection', 'close'],
    ] as const) as [string, string]
  if (kind < 0.83) return ['Connection', pick(connectionValues)]
  if (kind < 0.88) return [disguised(pick(forbidden)), pick(['1', 'websocket', 'trailers', '6.6.6.6'])]
  if (kind < 0.91) return [pick(harmless), 'x']
  if (kind < 0.92) return ['X-Control', `a${String.fromCharCode(pick([1, 7, 9, 11, 12, 27, 31, 127]))}b`]
  return [disguised(pick(operations.names)), 'from the client']
}

/** What Node's HTTP/2 client refuses to send itself. */
const notOverHttp2 = /^(?:connection|upgrade|http2-settings|keep-alive|proxy-connection|transfer-encoding)$/i
const isSendable = ([name, value]: [string, string]): boolean =>
  !notOverHttp2.test(name) && !(/^te$/i.test(name) && value !== 'trailers') && !/[^\t\x20-\x7e\x80-\xff]/.test(value)

export function generate(index: number): GeneratedRequest {
  const version: Version = chance(0.35) ? 'HTTP/2' : 'HTTP/1.1'
  const servername = pick(servernames)
  const method = chance(0.7) ? 'GET' : pick(methods)
  const headers: [string, string][] = [...some(6, header), ['X-Number', String(index)]]
  const isTunnel = method === 'CONNECT'
  return {
    version,
    from: pick(['127.0.0.1', '127.0.0.1', '127.0.0.2', '127.0.0.3']),
    servername,
    method: isTunnel && version === 'HTTP/2' ? 'TRACE' : method,
    host: host(servername),
    target: isTunnel ? 'app.example.com:443' : `${path()}${query()}`,
    headers: version === 'HTTP/2' ? uniqueNames(headers.filter(isSendable)) : headers,
    body: /^(?:POST|PUT|PATCH)$/.test(method) && chance(0.7) ? 'body'.repeat(randomBelow(20)) : '',
  }
}

/** Node's HTTP/2 client takes one of most headers. */
function uniqueNames(headers: [string, string][]): [string, string][] {
  return [
    ...new Map(
      headers.map(([name, value]): [string, [string, string]] => [name.toLowerCase(), [name, value]]),
    ).values(),
  ]
}
