import { isDeepStrictEqual } from 'node:util'
import type { Line } from './access_log.ts'
import type { Answer } from './clients.ts'
import { byName, requestId } from './headers.ts'
import type { NumberedRequest, TcpVisit } from './requests.ts'
import {
  type Account,
  type Counted,
  type Expected,
  type expectTcp,
  findEdge,
  type Header,
  nameOfHost,
} from './specification.ts'
import type { Seen, SeenConnection } from './upstreams.ts'

export type SeenRequest = { answer: Answer; line: Line | undefined; upstream: Seen[] }

const uuidV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
/** These belong to the connection, or are compared by themselves. */
const framing = /^(x-request-id|content-length|connection|date)$/
const shown = (value: unknown) => (value === undefined ? 'nothing' : JSON.stringify(value))

/** Each difference as a line: what it is about, what was expected, and what was seen. */
export function differencesOf(request: NumberedRequest, expected: Expected, seen: SeenRequest): string[] {
  const faults: string[] = []
  const compare = (what: string, wanted: unknown, found: unknown) => {
    if (!isDeepStrictEqual(wanted, found)) faults.push(`${what}: expected ${shown(wanted)}, seen ${shown(found)}`)
  }
  const { answer, line, upstream } = seen
  const id = answer.headers.find(([name]) => name === 'x-request-id')?.[1] ?? ''
  compare('status', expected.status, answer.status)
  compare('a request id of version 7', true, uuidV7.test(id))
  if (expected.errorCode && request.method !== 'HEAD') compare('error code', expected.errorCode, errorCodeOf(answer))
  if (expected.response) {
    const own = answer.headers.filter(([name]) => !framing.test(name))
    compare('headers of the response', expected.response.headers, own)
    compare('body', expected.response.body, answer.body)
  }
  for (const [name, value] of expected.onOwnAnswer ?? [])
    if (name !== 'content-type')
      compare(`${name} of the edge's own answer`, value, Object.fromEntries(answer.headers)[name])
  compare('times that the upstream got it', expected.forwarded ? 1 : 0, upstream.length)
  const [arrived] = upstream
  if (expected.forwarded && arrived) {
    const { ports, method, target, headers } = expected.forwarded
    if (!ports.includes(arrived.port)) compare('port of the upstream', ports, arrived.port)
    compare('method at the upstream', method, arrived.method)
    compare('target at the upstream', target, arrived.target)
    const found = arrived.headers
      .map(([name, value]): Header => [name, value === id ? requestId : value])
      // Requests that are never sent twice have a connection of their own.
      .filter(([name, value]) => name !== 'connection' || value !== 'close')
      .sort(byName)
    for (const header of headers)
      if (!found.some((other) => isDeepStrictEqual(header, other))) compare('header at the upstream', header, undefined)
    for (const header of found)
      if (!headers.some((other) => isDeepStrictEqual(header, other)))
        compare('header at the upstream', undefined, header)
    if (faults.length === 0) compare('headers at the upstream', headers, found)
    const own = answer.headers.filter(([name]) => !framing.test(name))
    if (expected.status === 200) compare('headers of the answer', expected.answered, own)
  }
  if (!line) return [...faults, 'access log: no line']
  for (const [field, value] of Object.entries(fieldsOf(expected.counted))) compare(field, value, line[field])
  compare('client.address', request.source, line['client.address'])
  compare('network.protocol.version', request.protocol, line['network.protocol.version'])
  compare('http.response.status_code', expected.status, line['http.response.status_code'])
  return faults
}

function errorCodeOf({ body }: Answer): unknown {
  try {
    return JSON.parse(body).error_code
  } catch {
    return body
  }
}

/** The access log's fields. An allowed request may name what allowed it. */
const fieldsOf = ({ outcome, reason, account, edge, route, restriction, policy, rule }: Counted) => ({
  'gatehouse.outcome': outcome,
  'gatehouse.reason': reason,
  'gatehouse.account': account,
  'gatehouse.edge': edge,
  'gatehouse.route': route,
  ...((outcome === 'refused' || outcome === 'warned') && {
    'gatehouse.restriction': restriction,
    'gatehouse.policy': policy,
    'gatehouse.rule': rule,
  }),
})

export function differencesOfConnection(
  { number, source }: TcpVisit,
  expected: ReturnType<typeof expectTcp>,
  answer: string,
  seen: readonly SeenConnection[],
): string[] {
  const ports = expected && 'ports' in expected ? (expected.ports as number[]) : []
  const faults: string[] = []
  if (answer !== (ports.length ? number : ''))
    faults.push(`answer: expected ${ports.length ? number : 'none'}, seen '${answer}'`)
  if (seen.length !== (ports.length ? 1 : 0)) faults.push(`the upstream got it ${seen.length} times`)
  for (const { port, client } of seen) {
    if (!ports.includes(port)) faults.push(`port of the upstream: expected ${ports}, seen ${port}`)
    if (client !== undefined && client !== source) faults.push(`PROXY header: expected ${source}, seen ${client}`)
  }
  return faults
}

/** Modules refer to resources by id, and beside that with their URI. */
const withoutReferences = (name: string, value: unknown) => {
  const isReference = name === 'ip_policies' || (typeof value === 'object' && value !== null && 'uri' in value)
  return isReference ? undefined : value
}

/** For a person: the request, what is configured for it, what was expected and what was seen. */
export function describe(
  { seed }: { seed: number },
  accounts: readonly Account[],
  request: NumberedRequest,
  expected: Expected,
  { answer, line, upstream }: SeenRequest,
  faults: readonly string[],
): string {
  const place = findEdge(accounts, nameOfHost(request.host) ?? '') ?? findEdge(accounts, request.serverName)
  const { method, target, host, protocol, source, serverName, headers } = request
  const policies = place && Object.fromEntries(place.account.policies)
  return [
    `\nGATEHOUSE_TEST_SEED=${seed}: ${faults.length} differences`,
    ...faults.map((fault) => `  ${fault}`),
    `request: ${method} ${target} HTTP/${protocol}, Host: ${host}, from ${source}, TLS name ${serverName}`,
    ...headers.map(([name, value]) => `  ${name}: ${value}`),
    `edge: ${place?.edge.names.join(', ')}`,
    ...(place?.edge.routes.map((route) => `  ${JSON.stringify(route, withoutReferences)}`) ?? []),
    `restrictions: ${JSON.stringify(place?.account.restrictions)}`,
    `policies: ${JSON.stringify(policies)}`,
    `expected: ${JSON.stringify(expected)}`,
    `seen by the client: ${JSON.stringify(answer)}`,
    `seen by upstreams: ${JSON.stringify(upstream)}`,
    `access log: ${JSON.stringify(line)}`,
  ].join('\n')
}
