// What becomes of headers, written from the docs alone, like specification.ts.
import { certificateHeaders } from './certificates.ts'
import type { Expected, Filter, Header, HttpRequest, HttpsEdge, Route } from './specification.ts'

const hopByHop = /^(connection|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-.*)$/
/** They name another path or client, or the edge sets them itself. */
const neverForwarded =
  /^(x-forwarded-(for|host|proto)|forwarded|x-request-id|x-original-.*|x-client-certificate-.*|x-rewrite-url|x-real-ip|true-client-ip)$/
const spelling = (name: string) => name.toLowerCase().replaceAll('_', '-')

/** The id that the edge makes, as it cannot be known before. */
export const requestId = '<the request id>'

export function forwardedHeaders(
  request: HttpRequest,
  edge: HttpsEdge,
  { request_headers, rewrite }: Route,
  isWebSocket: boolean,
) {
  const { headers, source, protocol } = request
  // HTTP/2 has no default port in a name.
  const host = protocol === '2' ? request.host.replace(/:443$/, '') : request.host
  const named = headers.flatMap(([name, value]) =>
    name.toLowerCase() === 'connection' ? value.toLowerCase().split(/[ ,]+/) : [],
  )
  const sent: Header[] = headers
    .map(([name, value]): Header => [name.toLowerCase(), value])
    .filter(([name]) => !hopByHop.test(spelling(name)) && !named.includes(name) && !neverForwarded.test(spelling(name)))
  const own: Header[] = [
    ['host', (rewrite?.enabled && rewrite.host) || host],
    ['x-forwarded-for', source],
    ['x-forwarded-host', host],
    ['x-forwarded-proto', 'https'],
    ['x-request-id', requestId],
    ...certificateHeaders(edge.mutual_tls, request),
  ]
  if (isWebSocket) own.push(['connection', 'upgrade'], ['upgrade', 'websocket'])
  const module = request_headers?.enabled ? request_headers : { add: {}, remove: [] }
  const added = Object.entries(module.add).map(([name, value]): Header => [name.toLowerCase(), value])
  const replaced = new Set([...module.remove, ...Object.keys(module.add)].map(spelling))
  return [...[...sent, ...own].filter(([name]) => !replaced.has(spelling(name))), ...added].sort(byName)
}
export const byName = (a: Header, b: Header) => (`${a[0]}\0${a[1]}` < `${b[0]}\0${b[1]}` ? -1 : 1)

/** 'The edge's own answers' in docs/guides/response-headers.md. */
const forEveryAnswer =
  /^(strict-transport-security|content-security-policy(-report-only)?|x-frame-options|x-content-type-options|referrer-policy|permissions-policy|cross-origin-.*|access-control-.*|timing-allow-origin|x-robots-tag)$/

/** What the upstreams of this test answer with, besides framing. */
const upstreamHeaders: Header[] = [['x-from', 'upstream']]

/** `cors`: what that module adds before. */
export function withResponseHeaders(
  expected: Expected,
  { response_headers }: Route,
  cors: readonly Header[],
): Expected {
  const { add, remove } = response_headers?.enabled ? response_headers : { add: {}, remove: [] }
  const added = Object.entries(add).map(([name, value]): Header => [name.toLowerCase(), value])
  if (expected.isPreflight) {
    const headers = [...cors, ...added.filter(([name]) => forEveryAnswer.test(name))].sort(byName)
    return { ...expected, response: { headers, body: '' } }
  }
  if (expected.errorCode) {
    const own = added.map(([name, value]): [string, string | undefined] => [
      name,
      forEveryAnswer.test(name) ? value : undefined,
    ])
    return { ...expected, onOwnAnswer: [...own, ...cors] }
  }
  const gone = new Set(remove.map((name) => name.toLowerCase()))
  for (const [name] of added) if (name !== 'set-cookie') gone.add(name)
  const changed = (headers: Header[]) =>
    [...[...headers, ...cors].filter(([name]) => !gone.has(name)), ...added].sort(byName)
  const { response } = expected
  return response
    ? { ...expected, response: { ...response, headers: changed(response.headers) } }
    : { ...expected, answered: changed(upstreamHeaders) }
}

/** docs/guides/filters.md. */
export const passes = ({ allow, deny }: Filter, matches: (entry: string) => boolean): boolean =>
  (allow.length === 0 || allow.some(matches)) && !deny.some(matches)
export function userAgentPasses(filter: Filter, { headers }: HttpRequest): boolean {
  const sent = headers.filter(([name]) => spelling(name) === 'user-agent')
  const isClear = sent.length < 2 && sent.every(([name]) => name.toLowerCase() === 'user-agent')
  const text = sent[0]?.[1].toLowerCase() ?? ''
  return isClear && passes(filter, (entry) => text.includes(entry.toLowerCase()))
}

type Redirect = { to: string; keep_path: boolean; keep_query: boolean }
/** 'Where clients are sent' in docs/guides/redirects.md. */
export function locationOf({ to, keep_path, keep_query }: Redirect, path: string, query: readonly string[]): string {
  const base = keep_path ? `${to.replace(/\/$/, '')}${path}` : to
  const kept = query.join('?')
  return keep_query && kept ? `${base}?${kept}` : base
}
