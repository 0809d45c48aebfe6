import assert from 'node:assert/strict'
import { Agent, request } from 'node:https'
import type { TestContext } from 'node:test'
import { jetstream } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'
import { defaultChannels, type Progress, progressKey } from '../../src/distribution/channels.ts'
import { startHttpUpstream } from '../agent/http_harness.ts'
import { dial, startTcpUpstream, statusOf } from '../agent/live_harness.ts'
import type { Scope } from '../harness/control_plane.ts'
import { type EdgeProcess, type Installation, startInstallation } from '../harness/edge.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { insertEdges } from '../harness/insert_edges.ts'
import { policyWith, restrict } from '../harness/ip.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { pause, poll } from '../harness/poll.ts'

/** What may never be answered 2xx: an account's restriction that comes last, and a narrow route that comes after the wide one. */
const guarded = [
  { host: 'restricted.example', path: '/' },
  { host: 'narrow.example', path: '/admin/x' },
]

/**
 * As many records as wanted, and two things that shut what others open: an enforced restriction, which the publisher
 * sends after all edges and routes, and a route with a policy, the newest of all routes, under an open one, the oldest.
 */
export async function startCrowdedInstallation(scope: Scope, records: number) {
  const installation = await startInstallation(scope)
  const { admin } = installation
  const other = await installation.newAccount()
  const web = await startHttpUpstream(scope as unknown as TestContext, 'web')
  const tcp = await startTcpUpstream(scope)
  const backendOf = (as: typeof admin, port: number) => make(as, '/backends/static', { address: `127.0.0.1:${port}` })
  const addRoute = async (as: typeof admin, edge: { uri: string }, match: string, more: object = {}) =>
    make(as, `${edge.uri}/routes`, {
      match_type: 'path_prefix',
      match,
      backend: { backend_id: (await backendOf(as, web.port)).id },
      ...more,
    })
  const empty = await policyWith(admin)
  const narrow = await newHttpsEdge(admin, { hostports: ['narrow.example:443'] })
  await addRoute(admin, narrow, '/')
  const restricted = await newHttpsEdge(other, { hostports: ['restricted.example:443'] })
  await addRoute(other, restricted, '/')
  const port = 1 + Number(installation.tcpPorts.first)
  const backend = await backendOf(other, tcp.port)
  await make(other, '/edges/tcp', { hostports: [`tcp.example:${port}`], backend: { backend_id: backend.id } })
  await insertEdges(installation, Math.ceil(records / 2), {
    backendId: (await backendOf(admin, web.port)).id,
    policyId: empty,
  })
  const admins = await addRoute(admin, narrow, '/admin', { ip_restriction: { ip_policy_ids: [empty] } })
  const restriction = await restrict(other, {
    type: 'endpoints',
    ip_policy_ids: [await policyWith(other)],
    enforced: true,
  })
  /** After another change, both come after all other records in the bucket. */
  const sendGuardsLast = async () => {
    for (const [as, { uri }] of [
      [admin, admins],
      [other, restriction],
    ] as const) {
      const { status, text } = await as('PATCH', uri, { description: `changed at ${Date.now()}` })
      assert.equal(status, 200, text)
    }
  }
  return { ...installation, tcpPort: port, sendGuardsLast }
}

/** NATS starts empty: opening the bucket now would show only part of the records. */
export const loseBucket = ({ nats }: Installation) => nats.restart({ empty: true })

/** Resolves when everything is in the bucket, what shuts last, to how many records that are. */
export async function completeBucket(
  { nats, sendGuardsLast }: Awaited<ReturnType<typeof startCrowdedInstallation>>,
  seconds: number,
): Promise<number> {
  const control = await connect({ servers: nats.url, user: 'control-plane', pass: 'control-plane' })
  const open = () => new Kvm(jetstream(control)).open(defaultChannels.records)
  try {
    const found = await poll(
      async () => {
        const bucket = await open().catch(() => undefined)
        const entry = await bucket?.get(progressKey).catch(() => undefined)
        const { complete } = entry ? (JSON.parse(entry.json<{ payload: string }>().payload) as Progress) : {}
        return { complete, values: (await bucket?.status().catch(() => undefined))?.values ?? 0 }
      },
      ({ complete }) => complete !== undefined,
      { withinSeconds: seconds },
    )
    const bucket = await open()
    const before = (await bucket.get(progressKey))?.revision ?? 0
    await sendGuardsLast()
    await poll(
      async () => (await bucket.get(progressKey))?.revision ?? 0,
      (revision) => revision >= before + 3,
    )
    return found.values
  } finally {
    await control.close()
  }
}

/** Between two questions of one client: so many clients that keep two cores busy would only slow down the node. */
const paceMs = 2

/**
 * Asks a node that has just started with an empty disk, all the time, until it enforces everything. Counts what it
 * answered, by status; 0 is a connection that came to nothing.
 */
export async function askUntilEnforced(edge: EdgeProcess, tcpPort: number, seconds: number) {
  const began = Date.now()
  const counts: Record<string, number> = {}
  const wrong: string[] = []
  let tcpOpened = 0
  const enforced = new Set<string>()
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  const deadline = began + loadScaledTimeout(seconds * 1_000)
  const ask = async (asked: (typeof guarded)[number]) => {
    while (enforced.size < guarded.length && Date.now() < deadline) {
      const status = await statusOfRequest(agent, edge.httpsPort, asked)
      counts[status] = (counts[status] ?? 0) + 1
      if (status >= 200 && status < 300) wrong.push(`${asked.host}${asked.path} at ${Date.now() - began} ms`)
      if (status === 403) enforced.add(asked.host)
      await pause(paceMs)
    }
  }
  const knock = async () => {
    for (; enforced.size < guarded.length && Date.now() < deadline; await pause(paceMs))
      if ((await dial(tcpPort, '127.0.0.1')) !== undefined) tcpOpened++
  }
  await Promise.all([...guarded, ...guarded].map(ask).concat(knock()))
  agent.destroy()
  const seen = await statusOf(edge)
  assert.equal(enforced.size, guarded.length, `after ${seconds} s: ${JSON.stringify({ counts, seen })}`)
  return { counts, wrong, tcpOpened, seconds: (Date.now() - began) / 1_000, records: seen.records }
}

const statusOfRequest = (agent: Agent, port: number, { host, path }: { host: string; path: string }): Promise<number> =>
  new Promise((resolve) => {
    const options = { host: '127.0.0.1', port, path, agent, servername: host, rejectUnauthorized: false }
    const asked = request({ ...options, headers: { host } }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode ?? 0))
      response.on('error', () => resolve(0))
    })
    asked.on('error', () => resolve(0))
    asked.end()
  })

/** What must be served once the node is ready: shutting everything for good would be no answer. */
export const servesWhatIsOpen = (edge: EdgeProcess): Promise<number> =>
  statusOfRequest(new Agent(), edge.httpsPort, { host: 'narrow.example', path: '/' })
