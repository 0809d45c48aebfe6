// `npm run drill -- million-routes <routes> <changes> <imported>`: a node with a million routes: memory, start, and the p99
// of its traffic during changes, imports and a restart of the agent. All the while requests pass at a steady pace: their p99
// may at most be 1.5 times the quiet one.
import assert from 'node:assert/strict'
import { mkdtemp } from 'node:fs/promises'
import { Agent, request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { transaction } from '../../src/db/transaction.ts'
import type { RecordKey } from '../../src/distribution/records.ts'
import { toId, toUuid } from '../../src/kernel/ids.ts'
import { writeOutbox } from '../../src/operations/outbox.ts'
import { statusOf } from '../agent/live_harness.ts'
import { stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { type EdgeProcess, type Installation, startInstallation } from '../harness/edge.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { insertEdges } from '../harness/insert_edges.ts'
import { policyWith } from '../harness/ip.ts'
import { hostOf, manyRoutes, routesPerEdge, writeToDisk } from '../harness/many_routes.ts'
import { memoryOf } from '../harness/node_memory.ts'
import { pause, poll } from '../harness/poll.ts'
import { quantile, quantiles } from '../harness/quantiles.ts'
import { createSteadyTraffic, type Seen } from '../harness/steady_traffic.ts'

const routes = Number(process.argv[2] ?? 1_000_000)
const changes = Number(process.argv[3] ?? 1_000)
const imported = Number(process.argv[4] ?? 10_000)
const quietSeconds = 10
const clients = 32
const mostRatio = 1.5

type Traffic = Awaited<ReturnType<typeof createSteadyTraffic>>

await drill(async (scope) => {
  const traffic = await createSteadyTraffic()
  scope.after(async () => void (await traffic.stop()))
  const installation = await startInstallation(scope)
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-edge-'))
  const records = await writeToDisk(folder, manyRoutes(routes, traffic.upstreamPort))
  const began = performance.now()
  let edge = await installation.startEdge({ folder })
  console.log(`${records} records with ${routes} routes: started from disk after ${secondsSince(began)} s`)
  await printMemory('after the start', edge)

  await traffic.start({
    httpsPort: edge.httpsPort,
    hosts: Array.from({ length: clients }, (_, index) =>
      hostOf(Math.floor((index * routes) / routesPerEdge / clients)),
    ),
    paths: Array.from({ length: routesPerEdge }, (_, index) => `/r${index}`),
    everyMs: 4,
  })
  await pause(2_000)
  const during = phases(traffic)

  const one = await newToggledRoute(installation, traffic.upstreamPort)
  await during(`${changes} changes, one after another`, async () => {
    const latencies: number[] = []
    for (let index = 0; index < changes; index++) latencies.push(await one.toggle(edge))
    console.log(`a change is in force after ${quantiles(latencies)}`)
  })
  const many = await newRoutes(installation, one)
  for (const [what, change] of Object.entries(many))
    await during(`${imported} routes ${what} at once`, async () => {
      const generation = await change()
      const committed = performance.now()
      await poll(
        // A busy agent may close a kept connection instead of answering.
        () => statusOf(edge).catch(() => ({ applied: 0 })),
        ({ applied }) => applied >= generation,
        { withinSeconds: 600 },
      )
      console.log(`${imported} routes ${what}: in force ${secondsSince(committed)} s after the commit`)
    })
  await printMemory('after the changes', edge)
  await during('a new agent attaches', async () => {
    await stop(edge.child, 'SIGHUP')
    const left = performance.now()
    edge = await installation.startEdge({ like: edge })
    console.log(`a new agent attached after ${secondsSince(left)} s`)
  })
  await printMemory('after the new agent', edge)
  return during.held()
})

function secondsSince(began: number): string {
  return ((performance.now() - began) / 1_000).toFixed(1)
}

/** Before each phase the edge is left alone, so that both are measured in the same minute of the machine. */
function phases(traffic: Traffic) {
  let held = true
  const during = async (what: string, work: () => Promise<void>): Promise<void> => {
    await traffic.take()
    await pause(quietSeconds * 1_000)
    const quiet = await traffic.take()
    await work()
    const busy = await traffic.take()
    const ratio = quantile(busy.latencies, 0.99) / quantile(quiet.latencies, 0.99)
    console.log(`  quiet: ${described(quiet)}`)
    console.log(`  ${what}: ${described(busy)}; p99 is ${ratio.toFixed(2)} of the quiet one`)
    held &&= ratio <= mostRatio && busy.failures.length === 0 && quiet.failures.length === 0
  }
  return Object.assign(during, { held: () => held })
}

function described({ latencies, failures }: Seen): string {
  const [first] = failures
  return `${latencies.length} requests, ${quantiles(latencies)}, ${failures.length} failed${first ? ` (${first})` : ''}`
}

/** A route that a policy opens and shuts in turn. `toggle` resolves to the milliseconds until a request sees it. */
async function newToggledRoute({ admin }: Installation, upstreamPort: number) {
  const [open, shut] = [await policyWith(admin, 'allow 127.0.0.0/8'), await policyWith(admin, 'allow 192.0.2.1')]
  const backend = await make(admin, '/backends/static', { address: `127.0.0.1:${upstreamPort}` })
  const edge = await newHttpsEdge(admin, { hostports: ['toggled.example:443'] })
  const route = await make(admin, `${edge.uri}/routes`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id: backend.id },
    ip_restriction: { ip_policy_ids: [open] },
  })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  let isOpen = true
  return {
    policies: { open, shut },
    backendId: backend.id,
    async toggle(node: EdgeProcess): Promise<number> {
      isOpen = !isOpen
      const ip_restriction = { ip_policy_ids: [isOpen ? open : shut] }
      const { status, text } = await admin('PATCH', route.uri, { ip_restriction })
      assert.equal(status, 200, text)
      const answered = performance.now()
      while ((await statusAt(node, 'toggled.example', agent)) !== (isOpen ? 200 : 403))
        assert.ok(performance.now() - answered < 120_000, 'not in force after two minutes')
      return performance.now() - answered
    },
  }
}

function statusAt({ httpsPort }: EdgeProcess, host: string, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    const where = { host: '127.0.0.1', port: httpsPort, servername: host, rejectUnauthorized: false }
    request({ ...where, agent, headers: { host } }, (response) =>
      response.resume().once('end', () => resolve(response.statusCode ?? 0)),
    )
      .once('error', reject)
      .end()
  })
}

/** Each in one transaction, straight into the tables: sent by the publisher as one generation. */
async function newRoutes(
  installation: Installation,
  { policies, backendId }: { policies: { open: string; shut: string }; backendId: string },
) {
  const { db, admin } = installation
  const account = toUuid(admin.accountId as `ac_${string}`)
  const ids = await insertEdges(installation, imported, { backendId, policyId: policies.open })
  const routeKeys = ids.routes.map((id): RecordKey => `route.${toId('edghtsrt', id)}`)
  const keys = [...ids.edges.map((id): RecordKey => `https.${toId('edghts', id)}`), ...routeKeys]
  return {
    imported: () => transaction(db, (tx) => writeOutbox(tx, account, keys)),
    changed: () =>
      transaction(db, async (tx) => {
        const other = toUuid(policies.shut as `ipp_${string}`)
        await run(tx, sql`update edge_module_policies set ip_policy_id = ${other} where edge_id = any(${ids.routes})`)
        return writeOutbox(tx, account, routeKeys)
      }),
    deleted: () =>
      transaction(db, async (tx) => {
        await run(tx, sql`delete from edges where account_id = ${account} and id = any(${ids.edges})`)
        return writeOutbox(tx, account, keys)
      }),
  }
}

async function printMemory(when: string, edge: EdgeProcess): Promise<void> {
  console.log(`memory ${when}: ${await memoryOf(edge)}`)
}
