// `npm run drill -- module-memory <routes> <rounds> <edges>`: what a node with 100,000 routes that use all modules takes of the memory,
// and how long it takes to start, beside one whose routes have none. In turn, because the machine is not always the same. So many
// edges, by default one of ten, ask clients for certificates, each of an authority of its own.
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type RouteModuleSettings, routeModuleNames } from '../../src/distribution/route_modules.ts'
import { exchange } from '../agent/http_harness.ts'
import { visit } from '../agent/mutual_harness.ts'
import { authority, issue } from '../harness/client_pki.ts'
import { stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { type EdgeProcess, type Installation, startInstallation } from '../harness/edge.ts'
import { hostOf, type ModulesOf, manyRoutes, routesPerEdge, writeToDisk } from '../harness/many_routes.ts'
import { memoryOf } from '../harness/node_memory.ts'
import { quickCertificate } from '../harness/quick_certificates.ts'
import { moduleSamples } from '../harness/route_modules.ts'
import { createSteadyTraffic } from '../harness/steady_traffic.ts'

const routes = Number(process.argv[2] ?? 100_000)
const rounds = Number(process.argv[3] ?? 2)
const asking = Number(process.argv[4] ?? routes / routesPerEdge / 10)

const records = Object.fromEntries(
  routeModuleNames.map((name) => [name, moduleSamples[name].record]),
) as RouteModuleSettings
// The number of nodes would be in another record of the account.
const { scope: _, ...rate_limit } = records.rate_limit
const without: ModulesOf = () => ({ policies: null, headers: null })
/** If the node read the bucket, it would drop the routes that exist only in its folder. */
const cutOff = { cutOff: true, env: { GATEHOUSE_NATS_URL: 'nats://127.0.0.1:1' } }
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

/** The client of the first edge that asks. The others have authorities without clients. */
const issuer = authority('/CN=clients')
const client = issue({ issuer })
const authorities = Array.from({ length: asking }, (_, edge) =>
  edge === 0 ? issuer.pem : quickCertificate([`${edge}.clients`]).certificate_pem,
)
const mutualOf = (edge: number) => {
  const pem = authorities[edge]
  return pem === undefined ? undefined : { mode: 'required' as const, authorities: [pem] }
}

await drill(async (scope) => {
  const traffic = await createSteadyTraffic()
  scope.after(async () => void (await traffic.stop()))
  const installation = await startInstallation(scope)
  const start = async (what: string, modulesOf: ModulesOf, mutual?: typeof mutualOf) => {
    const folder = await mkdtemp(join(tmpdir(), 'gatehouse-edge-'))
    await writeToDisk(folder, manyRoutes(routes, traffic.upstreamPort, modulesOf, mutual))
    return startAndAttach(installation, folder, what, mutual !== undefined)
  }
  let held = true
  for (let round = 1; round <= rounds; round++) {
    console.log(`round ${round} of ${rounds}, ${routes} routes`)
    held = (await start('without modules', without)).startsWith('200') && held
    const asked = await start(`with client certificates on ${asking} edges`, without, mutualOf)
    held = asked.startsWith('200') && held
    // The redirect answers, with what the other modules have let through and added.
    const answer = await start('with all modules', withAll, mutualOf)
    const last = `https://${routes - 1}\\.example\\.com`
    held = new RegExp(`^301 .*^location: ${last}.*^x-frame-options: DENY`, 'ims').test(answer) && held
  }
  return held
})

function secondsSince(began: number): string {
  return `${((performance.now() - began) / 1_000).toFixed(1)} s`
}

/** Resolves to the status and head of an answer of the last route. */
async function startAndAttach(
  { startEdge }: Installation,
  folder: string,
  what: string,
  isAsking: boolean,
): Promise<string> {
  const began = performance.now()
  const edge = await startEdge({ ...cutOff, folder })
  const started = secondsSince(began)
  const [memory, answer] = [await memoryOf(edge), await answerOfLast(edge)]
  // HAProxy goes on, and a new agent compares all that it has.
  await stop(edge.child, 'SIGHUP')
  const left = performance.now()
  const again = await startEdge({ ...cutOff, like: edge })
  console.log(
    `  ${what}: started from disk after ${started}, ${memory}; a new agent attached after ${secondsSince(left)}, ${await memoryOf(again)}`,
  )
  const after = await answerOfLast(again)
  if (isAsking) await requireCertificates(again)
  await stop(again.child)
  if (!isSame(answer, after)) throw new Error(`after a new agent had attached, the last route answered ${after}`)
  return answer
}

/** All but what each answer has for itself. */
function isSame(one: string, other: string): boolean {
  const known = (answer: string) => answer.replaceAll(/^(?:x-request-id|date):.*$/gim, '')
  return known(one) === known(other)
}

async function requireCertificates(edge: EdgeProcess): Promise<void> {
  const servername = hostOf(0)
  const [withOne, without] = [await visit(edge, { servername, client }), await visit(edge, { servername })]
  if (withOne.status === 0 || without.status !== 0)
    throw new Error(`with a client certificate ${withOne.status} ${withOne.error}, without one ${without.status}`)
}

async function answerOfLast(edge: EdgeProcess): Promise<string> {
  const last = routes - 1
  const host = hostOf(Math.floor(last / routesPerEdge))
  const lines = [`GET /r${last % routesPerEdge} HTTP/1.1`, `Host: ${host}`, 'User-Agent: Example App/1']
  const { status, head } = await exchange(edge, `${lines.join('\r\n')}\r\n\r\n`, { servername: host })
  return `${status} ${head}`
}
