import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { TestContext } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { pause, poll } from '../harness/poll.ts'
import { get, putHttpsEdge } from './http_harness.ts'
import { type Edge, id } from './proxy_harness.ts'

export type NamedServer = {
  name: string
  address: string
  port: number
  /** What its health check gets. */
  status: number
  /** Method and path of each request that is no check. */
  requests: string[]
  checks: IncomingMessage[]
  /** Answers of requests that are no checks wait for it. */
  gate: Promise<void>
  /** Ends as a killed process does: nothing listens, and every connection is reset. */
  stop: () => Promise<void>
  start: () => Promise<void>
}

/** Answers with its name, after `?ms=` milliseconds. Checks are requests for /health. */
export async function startNamedServer(t: TestContext, name: string, at: { address?: string; port?: number } = {}) {
  let server: Server
  const named: NamedServer = {
    name,
    address: at.address ?? '127.0.0.1',
    port: at.port ?? 0,
    status: 200,
    requests: [],
    checks: [],
    gate: Promise.resolve(),
    async stop() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
    async start() {
      server = createServer(answer).listen(named.port, named.address)
      await once(server, 'listening')
      named.port = (server.address() as { port: number }).port
    },
  }
  function answer(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://server')
    if (pathname === '/health') {
      named.checks.push(request)
      response.writeHead(named.status).end()
      return
    }
    named.requests.push(`${request.method} ${request.url}`)
    void Promise.all([named.gate, pause(Number(searchParams.get('ms') ?? 0))]).then(() => response.end(name))
  }
  await named.start()
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  return named
}

export const httpCheck = { type: 'http', path: '/health', interval_seconds: 1, healthy_after: 1, unhealthy_after: 1 }
export const tcpCheck = { type: 'tcp', interval_seconds: 1, healthy_after: 1, unhealthy_after: 1 }

/** The record of a static backend as the proxy gets it: with the addresses of its name. */
export const staticBackend = (servers: readonly { address: string; port: number }[], more: object = {}) => ({
  address: servers[0]?.address ?? null,
  addresses: servers.map(({ address }) => address),
  port: servers[0]?.port,
  tls: false,
  host: 'upstream.test',
  ...more,
})

/** A route for all paths, to a backend of any kind; resolves to the record, to change it. */
export async function routeTo(edge: Edge, backend: string, account: string, more: object = {}) {
  const https = await putHttpsEdge(edge)
  const record = {
    account,
    edge: https,
    match_type: 'path_prefix',
    match: '/',
    backend,
    policies: null,
    headers: null,
    ...more,
  }
  const key = `route.${id('edghtsrt')}`
  await edge.put({ [key]: record })
  return { key, record }
}

/** Who answers how often. */
export async function answersOf(edge: Edge, count: number, options: Parameters<typeof get>[1] = {}) {
  const bodies: Record<string, number> = {}
  for (let index = 0; index < count; index++) {
    const { status, body } = await get(edge, options)
    const who = status === 200 ? body : String(status)
    bodies[who] = (bodies[who] ?? 0) + 1
  }
  return bodies
}

/** The native backends of HAProxy, by id, each with its servers. */
export async function nativesOf({ settings }: Edge): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {}
  for (const line of (await ask(settings.runtimeSocket, 'show servers state')).split('\n')) {
    const fields = line.split(' ')
    const [, backend = '', , , address] = fields
    if (!backend.startsWith('bkd')) continue
    const name = backend.slice(0, backend.lastIndexOf('.'))
    found[name] = [...(found[name] ?? []), `${address}:${fields[18]}`].sort()
  }
  return found
}

/** Only what is wanted is there; what has been replaced goes when its requests have ended. */
export async function onlyTheseNatives(edge: Edge, wanted: Record<string, string[]>): Promise<void> {
  const sorted = (all: Record<string, string[]>) =>
    JSON.stringify(Object.entries(all).sort(([a], [b]) => (a < b ? -1 : 1)))
  await poll(
    () => nativesOf(edge),
    (found) => sorted(found) === sorted(wanted),
  )
  const names = (await ask(edge.settings.runtimeSocket, 'show stat -1 2 -1')).match(/^bkd\S+?(?=,)/gm) ?? []
  assert.equal(names.length, Object.keys(wanted).length)
}
