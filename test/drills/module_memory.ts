// `npm run drill -- module-memory <routes> <rounds>`: what a node with 100,000 routes that use all modules takes of the memory, and
// how long it takes to start, beside one whose routes have none. In turn, because the machine is not always the same.
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type RouteModuleSettings, routeModuleNames } from '../../src/distribution/route_modules.ts'
import { exchange } from '../agent/http_harness.ts'
import { stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { type EdgeProcess, type Installation, startInstallation } from '../harness/edge.ts'
import { hostOf, type ModulesOf, manyRoutes, routesPerEdge, writeToDisk } from '../harness/many_routes.ts'
import { memoryOf } from '../harness/node_memory.ts'
import { moduleSamples } from '../harness/route_modules.ts'
import { createSteadyTraffic } from '../harness/steady_traffic.ts'

const routes = Number(process.argv[2] ?? 100_000)
const rounds = Number(process.argv[3] ?? 2)

const records = Object.fromEntries(
  routeModuleNames.map((name) => [name, moduleSamples[name].record]),
) as RouteModuleSettings
// The number of nodes would be in another record of the account.
const { scope: _, ...rate_limit } = records.rate_limit
const without: ModulesOf = () => ({ policies: null, headers: null })
/** All that a record may have. Values differ from route to route, as those of tenants do. */
const withAll: ModulesOf = (index, policy) => ({
  ...records,
  rate_limit,
  policies: [policy],
  headers: { add: [['X-Route', `${index}`]], remove: ['X-Secret'] },
  response_headers: {
    add: [
      ['Strict-Transport-Security', 'max-age=31536000'],
      ['X-Frame-Options', 'DENY'],
      ['X-Route', `${index}`],
    ],
    remove: ['Server'],
  },
  redirect: { ...records.redirect, to: `https://${index}.example.com` },
  timeouts: { connect_seconds: 3, response_seconds: 30, idle_seconds: 60 },
})

await drill(async (scope) => {
  const traffic = await createSteadyTraffic()
  scope.after(async () => void (await traffic.stop()))
  const installation = await startInstallation(scope)
  const start = async (what: string, modulesOf: ModulesOf) => {
    const folder = await mkdtemp(join(tmpdir(), 'gatehouse-edge-'))
    await writeToDisk(folder, manyRoutes(routes, traffic.upstreamPort, modulesOf))
    return startAndAttach(installation, folder, what)
  }
  let held = true
  for (let round = 1; round <= rounds; round++) {
    console.log(`round ${round} of ${rounds}, ${routes} routes`)
    held = (await start('without modules', without)).startsWith('200') && held
    // The redirect answers, with what the other modules have let through and added.
    const answer = await start('with all modules', withAll)
    const last = `https://${routes - 1}\\.example\\.com`
    held = new RegExp(`^301 .*^location: ${last}.*^x-frame-options: DENY`, 'ims').test(answer) && held
  }
  return held
})

function secondsSince(began: number): string {
  return `${((performance.now() - began) / 1_000).toFixed(1)} s`
}

/** Resolves to the status and head of an answer of the last route. */
async function startAndAttach({ startEdge }: Installation, folder: string, what: string): Promise<string> {
  const began = performance.now()
  const edge = await startEdge({ folder })
  const started = secondsSince(began)
  const [memory, answer] = [await memoryOf(edge), await answerOfLast(edge)]
  // HAProxy goes on, and a new agent compares all that it has.
  await stop(edge.child, 'SIGHUP')
  const left = performance.now()
  const again = await startEdge({ like: edge })
  console.log(
    `  ${what}: started from disk after ${started}, ${memory}; a new agent attached after ${secondsSince(left)}, ${await memoryOf(again)}`,
  )
  await stop(again.child)
  return answer
}

async function answerOfLast(edge: EdgeProcess): Promise<string> {
  const last = routes - 1
  const host = hostOf(Math.floor(last / routesPerEdge))
  const lines = [`GET /r${last % routesPerEdge} HTTP/1.1`, `Host: ${host}`, 'User-Agent: Example App/1']
  const { status, head } = await exchange(edge, `${lines.join('\r\n')}\r\n\r\n`, { servername: host })
  return `${status} ${head}`
}
