import assert from 'node:assert/strict'
import type { Account, Scope } from '../harness/control_plane.ts'
import { type EdgeProcess, type Installation, startInstallation } from '../harness/edge.ts'
import { freshHost, make, newHttpsEdge } from '../harness/fixtures.ts'
import { failed, type Observed } from '../harness/open_loop.ts'
import { poll } from '../harness/poll.ts'
import { reachHttps } from '../harness/tenants.ts'
import { type ServerProcess, startServer } from './server_process.ts'

type HealthCheck = {
  type: 'tcp' | 'http'
  path?: string
  interval_seconds?: number
  healthy_after?: number
  unhealthy_after?: number
}
export type Group = {
  installation: Installation
  edge: EdgeProcess
  host: string
  servers: ServerProcess[]
  /** Gives the servers these weights; resolves when the node has applied it. */
  weigh: (...weights: number[]) => Promise<void>
}

export const everySecond: HealthCheck = {
  ...{ type: 'http', path: '/health', interval_seconds: 1 },
  ...{ healthy_after: 1, unhealthy_after: 2 },
}

/** An edge node that serves one host from a weighted backend of so many servers, each of which is up. */
export async function startGroup(
  scope: Scope,
  { servers: count, health_check = everySecond }: { servers: number; health_check?: HealthCheck },
): Promise<Group> {
  const installation = await startInstallation(scope)
  const edge = await installation.startEdge()
  const servers = await Promise.all(Array.from({ length: count }, (_, index) => startServer(scope, `server-${index}`)))
  const members: string[] = []
  for (const { port } of servers)
    members.push(
      (await make(installation.admin, '/backends/static', { address: `127.0.0.1:${port}`, health_check })).id,
    )
  const weights = (each: readonly number[]) => Object.fromEntries(members.map((id, index) => [id, each[index] ?? 1]))
  const group = await make(installation.admin, '/backends/weighted', { backends: weights([]) })
  const host = await serve(installation.admin, group.id)
  for (const { name } of servers)
    await poll(
      () => reachHttps(edge, host),
      ({ body }) => body === name,
    )
  return {
    ...{ installation, edge, host, servers },
    async weigh(...each) {
      const changed = await installation.admin('PATCH', `${group.uri}?wait=applied`, { backends: weights(each) })
      assert.equal(changed.headers.get('service-applied'), '1/1', changed.text)
    },
  }
}

/** A new host with one route to the backend, in force. */
export async function serve(as: Account, backendId: string): Promise<string> {
  const host = freshHost()
  const https = await newHttpsEdge(as, { hostports: [`${host}:443`] })
  const route = await as('POST', `${https.uri}/routes?wait=applied`, {
    ...{ match_type: 'path_prefix', match: '/', backend: { backend_id: backendId } },
  })
  assert.equal(route.headers.get('service-applied'), '1/1', route.text)
  return host
}

/** How often each request of a load was executed, by all servers together. */
export async function executionsOf(servers: readonly ServerProcess[], load: string): Promise<Map<string, number>> {
  const counts = new Map<string, number>()
  for (const server of servers)
    for (const each of await server.executions())
      if (each.includes(` ${load}-`)) counts.set(each, (counts.get(each) ?? 0) + 1)
  return counts
}

/** Requests that reached a server more than once. */
export const executedTwice = (executions: ReadonlyMap<string, number>, method: string): string[] =>
  [...executions].filter(([each, times]) => times > 1 && each.startsWith(method)).map(([each]) => each)

export const summary = (observed: Observed): string =>
  `${observed.sent} requests, ${observed.answered} answered, ${failed(observed)} failed`
