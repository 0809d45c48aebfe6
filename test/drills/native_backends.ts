// `npm run drill -- native-backends <backends> <changes>`: a node with 10,000 backends of two checked servers: start,
// memory, a change, and a reload under traffic. No request may fail during the reload.
import assert from 'node:assert/strict'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { statusOf } from '../agent/live_harness.ts'
import { serve, summary } from '../backends/group.ts'
import { hostOfGroup, manyGroups, pathOfGroup, startEverywhere } from '../backends/many_groups.ts'
import { stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { type EdgeProcess, type Installation, startInstallation } from '../harness/edge.ts'
import { make } from '../harness/fixtures.ts'
import { writeToDisk } from '../harness/many_routes.ts'
import { haproxyWorker, memoryOf } from '../harness/node_memory.ts'
import { describeFailures, failed, startLoad } from '../harness/open_loop.ts'
import { pause, poll } from '../harness/poll.ts'
import { quantiles } from '../harness/quantiles.ts'
import { reachHttps } from '../harness/tenants.ts'

/** One of them is made through the API. */
const backends = Number(process.argv[2] ?? 10_000)
const changes = Number(process.argv[3] ?? 50)

await drill(async (scope) => {
  const port = await startEverywhere(scope)
  const installation = await startInstallation(scope)
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-edge-'))
  const records = await writeToDisk(folder, manyGroups(backends - 1, port))
  const began = performance.now()
  let edge = await installation.startEdge({ folder })
  console.log(`${records} records with ${backends} backends: started from disk after ${secondsSince(began)} s`)
  await expectAll(edge)
  console.log(`memory after the start: ${await memoryOf(edge)}`)

  const shifted = await newShiftedGroup(installation, port)
  const latencies: number[] = []
  for (let change = 0; change < changes; change++) latencies.push(await shifted(edge))
  console.log(`a changed weight is in force after ${quantiles(latencies)}`)

  const groups = Array.from({ length: 100 }, (_, index) => Math.floor((index * (backends - 1)) / 100))
  const load = startLoad(scope, {
    ...{ httpsPort: edge.httpsPort, hosts: groups.map(hostOfGroup), paths: groups.map(pathOfGroup) },
    ...{ perSecond: 200, posts: 0.2 },
  })
  await pause(3_000)
  for (const [what, env] of Object.entries<Record<string, string>>({
    'a new agent attached': {},
    'a new agent with other settings reloaded HAProxy': { GATEHOUSE_EDGE_MAX_CONNECTIONS: '20001' },
  })) {
    const [left, worker] = [performance.now(), await haproxyWorker(edge)]
    await stop(edge.child, 'SIGHUP')
    edge = await installation.startEdge({ like: edge, env })
    const isReloaded = (await haproxyWorker(edge)) !== worker
    console.log(`${what} after ${secondsSince(left)} s${isReloaded ? ', with a new worker' : ''}`)
    await pause(3_000)
  }
  const observed = await load.stop()
  console.log(`while reloading: ${summary(observed)}; ${quantiles(observed.latencies)}`)
  console.log(`failures: ${describeFailures(observed)}`)
  await expectAll(edge)
  console.log(`memory at the end: ${await memoryOf(edge)}`)
  return failed(observed) === 0
})

function secondsSince(began: number): string {
  return ((performance.now() - began) / 1_000).toFixed(1)
}

/** Nothing was refused, and the last backend answers. */
async function expectAll(edge: EdgeProcess): Promise<void> {
  const { refusals } = await statusOf(edge)
  assert.deepEqual(refusals, [])
  const last = backends - 2
  const { status, body } = await reachHttps(edge, hostOfGroup(last), pathOfGroup(last))
  assert.equal(status, 200, body)
}

/** A group whose requests all go to one of its two servers, and to the other after each call. */
async function newShiftedGroup({ admin }: Installation, port: number) {
  const servers = ['127.6.0.1', '127.6.0.2']
  const members: string[] = []
  for (const address of servers)
    members.push((await make(admin, '/backends/static', { address: `${address}:${port}` })).id)
  const weights = (chosen: number) => Object.fromEntries(members.map((id, index) => [id, index === chosen ? 1 : 0]))
  const group = await make(admin, '/backends/weighted', { backends: weights(0) })
  const host = await serve(admin, group.id)
  let chosen = 0
  return async (edge: EdgeProcess): Promise<number> => {
    chosen = 1 - chosen
    const changed = await admin('PATCH', group.uri, { backends: weights(chosen) })
    assert.equal(changed.status, 200, changed.text)
    const answered = performance.now()
    await poll(
      () => reachHttps(edge, host),
      ({ body }) => body === servers[chosen],
      { everyMs: 1 },
    )
    return performance.now() - answered
  }
}
