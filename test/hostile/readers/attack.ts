import { type Client, createClient } from '../../agent/fast_path/clients.ts'
import type { Version } from '../../agent/fast_path/requests.ts'
import { putHttpsEdge, putRoute } from '../../agent/http_harness.ts'
import { type Edge, startEdge } from '../../agent/proxy_harness.ts'
import type { Scope } from '../../harness/control_plane.ts'
import { spellingsOf } from '../spellings.ts'
import type { Reader } from './node.ts'

export const [allowed, refused] = ['127.0.0.1', '127.0.0.9']

/** `decided` is the status of the answer, and `reached` the upstream's handler, if any was. */
export type Sent = { readonly decided: string; readonly reached: string }

/** On each edge of `below`, /admin and /exact are restricted and the rest is open; of `above`, only /public is open. */
export type Layout = 'below' | 'above'

export type Attack = {
  readonly edge: Edge
  readonly send: (reader: Reader, path: string, options: Options) => Promise<Sent>
}
export type Options = { from: string; layout?: Layout; version?: Version }

export async function startAttack(
  scope: Scope,
  readers: readonly Reader[],
  more: { isCarefulOnly?: boolean; path_variants?: 'ignore' } = {},
): Promise<Attack> {
  const { isCarefulOnly = false, ...fields } = more
  const edge = await startEdge(scope, { certificates: ['*.below.example', '*.above.example'], isCarefulOnly })
  const policies = [await edge.policy(`allow ${allowed}`)]
  const label = (reader: Reader) => `r${readers.indexOf(reader)}`
  for (const reader of readers) {
    const below = await putHttpsEdge(edge, [`${label(reader)}.below.example:443`])
    await putRoute(edge, below, reader, { match: '/' })
    await putRoute(edge, below, reader, { match: '/admin', policies, ...fields })
    await putRoute(edge, below, reader, { match: '/exact', match_type: 'exact_path', policies, ...fields })
    const above = await putHttpsEdge(edge, [`${label(reader)}.above.example:443`])
    await putRoute(edge, above, reader, { match: '/', policies, ...fields })
    await putRoute(edge, above, reader, { match: '/public' })
  }
  const client: Client = createClient(edge.httpsPort)
  scope.after(async () => client.close())
  return {
    edge,
    async send(reader, path, { from, layout = 'below', version = 'HTTP/1.1' }) {
      const host = `${label(reader)}.${layout}.example`
      const target = path.replaceAll('HOST', host)
      const request = { version, from, servername: host, method: 'GET', host, target, headers: [], body: '' }
      const outcome = await client.send(request)
      const decided = /^HTTP\/1.1 (\d+)|":status":(\d+)/.exec(outcome)
      // The edge's own answers are JSON.
      const handler = /^(?:ADMIN|EXACT|open)\r?$/m.exec(outcome)
      return { decided: decided?.[1] ?? decided?.[2] ?? 'closed', reached: handler?.[0].trim() ?? '' }
    },
  }
}

/** How a path leaves /public for another place, to some server. */
const climbs = [
  ...[
    '/..',
    '/%2e%2e',
    '/..;',
    '/..;x',
    '/.%252e',
    '/%252e%252e',
    '/..%2f',
    '/..%252f',
    '%2f..',
    '\\..',
    '/..\\',
    '/..%5c',
  ],
  ...[
    '/%c0%ae%c0%ae',
    '//..//..',
    '/x/../..',
    '/..%00',
    '/;/..',
    '//%252e%252e',
    '/%2e%2e%3b',
    ';/..',
    '/x;/../..',
    '/..%09',
  ],
]
export const climbing = climbs.flatMap((climb) =>
  ['/admin/keys', '/exact', '/ADMIN'].map((path) => `/public${climb}${path}`),
)

export const attackingPaths = (most: number): { layout: Layout; path: string }[] => [
  ...[...spellingsOf('/admin/keys', Math.ceil(most / 2)), ...spellingsOf('/exact', Math.ceil(most / 4))].map(
    (path) => ({ layout: 'below' as const, path }),
  ),
  ...climbing
    .filter(
      (_, at) =>
        (at * most) / 4 / climbing.length - Math.floor((at * most) / 4 / climbing.length) < most / 4 / climbing.length,
    )
    .map((path) => ({ layout: 'above' as const, path })),
]
/** HTTP/2 has no absolute form. */
export const fits = (version: Version, path: string): boolean => version === 'HTTP/1.1' || path.startsWith('/')

/** What everybody may ask for, in spellings that are in use. */
export const ordinary = [
  ...['/', '/open', '/Open/Path/', '/a%20b', '/caf%C3%A9/x', '/a;b=c', '/x//y', '/search?q=/admin', '/administration'],
  ...[
    '/admin.html',
    '/v1.2/x.tar.gz',
    '/a.php',
    '/img/https://host/x.png',
    '/%E7%AE%A1%E7%90%86',
    '/exactly',
    '/100%25',
  ],
]
