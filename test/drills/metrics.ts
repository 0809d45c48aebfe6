// `npm run drill -- metrics <minutes> <routes>`: 10,000 routes with traffic: the time and size of a scrape, the agent's
// memory, and that every request is counted. It runs twice, once with places for the metrics of 1,000 routes, which is the
// default, and once with places for all, while Prometheus would scrape. All requests have to be counted exactly, with their
// account and with their route or as one without a place, and memory has to stay flat.
import { mkdtemp, readFile } from 'node:fs/promises'
import { get as ask } from 'node:http'
import { Agent, request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { type EdgeProcess, type Installation, startInstallation } from '../harness/edge.ts'
import { hostOf, manyRoutes, routesPerEdge, writeToDisk } from '../harness/many_routes.ts'
import { pause } from '../harness/poll.ts'
import { quantile } from '../harness/quantiles.ts'
import { createSteadyTraffic } from '../harness/steady_traffic.ts'

const minutes = Number(process.argv[2] ?? 2)
const routes = Number(process.argv[3] ?? 10_000)
const clients = 16
const scrapeEveryMs = 3_000
/** Growth of the median from the second to the last third of the time; in the first the heap still finds its size. */
const mostGrowth = 1.2

type Scrape = { ms: number; sentBytes: number; text: string }

function scrape({ statusUrl }: EdgeProcess): Promise<Scrape> {
  const began = performance.now()
  return new Promise((resolve, reject) => {
    const sent: Buffer[] = []
    ask(`${statusUrl}/metrics`, { agent: false, headers: { 'accept-encoding': 'gzip' } }, (response) => {
      response.on('data', (bytes) => sent.push(bytes))
      response.on('end', () => {
        const ms = performance.now() - began
        const bytes = Buffer.concat(sent)
        resolve({ ms, sentBytes: bytes.length, text: gunzipSync(bytes).toString() })
      })
    }).on('error', reject)
  })
}
const sumOf = (text: string, name: string): number =>
  text
    .split('\n')
    .reduce((sum, line) => (line.startsWith(name) ? sum + Number(line.slice(line.lastIndexOf(' '))) : sum), 0)

/** One request to each route, each edge over a connection of its own. Returns how many were not answered with 200. */
async function visitAll({ httpsPort }: EdgeProcess): Promise<number> {
  let [next, failed] = [0, 0]
  const visit = async (host: string) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const where = { host: '127.0.0.1', port: httpsPort, servername: host, agent, rejectUnauthorized: false }
    for (let index = 0; index < routesPerEdge; index++) {
      const status = await new Promise<number | undefined>((resolve) => {
        request({ ...where, path: `/r${index}`, headers: { host } }, (response) =>
          response.resume().once('end', () => resolve(response.statusCode)),
        )
          .once('error', () => resolve(undefined))
          .end()
      })
      if (status !== 200) failed++
    }
    agent.destroy()
  }
  const client = async () => {
    while (next < routes / routesPerEdge) await visit(hostOf(next++))
  }
  await Promise.all(Array.from({ length: clients }, client))
  return failed
}

const residentMiB = async ({ child }: EdgeProcess): Promise<number> =>
  Number(/^VmRSS:\s+(\d+)/m.exec(await readFile(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1_024
const median = (values: number[]) => quantile(values, 0.5)
const spread = (values: number[], digits = 0) =>
  `${median(values).toFixed(digits)} (${Math.min(...values).toFixed(digits)}–${Math.max(...values).toFixed(digits)})`

async function measure(installation: Installation, upstreamPort: number, places: number): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-edge-'))
  await writeToDisk(folder, manyRoutes(routes, upstreamPort))
  const edge = await installation.startEdge({ folder, env: { GATEHOUSE_EDGE_METRICS_ROUTES: String(places) } })
  const before = await scrape(edge)
  let [sent, failed, isOver] = [0, 0, false]
  const visiting = (async () => {
    while (!isOver) {
      failed += await visitAll(edge)
      sent += routes
    }
  })()
  const [scrapes, memory]: [Scrape[], number[]] = [[], []]
  const end = Date.now() + minutes * 60_000
  while (Date.now() < end || sent < 2 * routes) {
    await pause(scrapeEveryMs)
    scrapes.push(await scrape(edge))
    memory.push(await residentMiB(edge))
  }
  isOver = true
  await visiting
  // Lines come a moment after their requests.
  await pause(2_000)
  const { text } = await scrape(edge)
  const since = (name: string) => sumOf(text, name) - sumOf(before.text, name)
  const byAccount = since('gatehouse_edge_account_requests_total{')
  const byRoute = since('gatehouse_edge_route_requests_total{')
  const without = since('gatehouse_edge_requests_without_route_metrics_total')
  const dropped = since('gatehouse_edge_requests_dropped_total')
  const byHaproxy = since('gatehouse_edge_frontend_requests_total{frontend="https"')
  const third = Math.floor(memory.length / 3)
  const growth = median(memory.slice(-third)) / median(memory.slice(third, 2 * third))
  const series = text.split('\n').filter((line) => line !== '' && !line.startsWith('#')).length
  const late = scrapes.slice(-third)
  console.log(
    `${places} places, ${routes} routes, ${sent} requests in ${minutes} min (${failed} failed), ${scrapes.length} scrapes:\n` +
      `  scrape ${spread(late.map(({ ms }) => ms))} ms, ${series} series, ` +
      `${(text.length / 1e6).toFixed(1)} MB, ${spread(
        late.map(({ sentBytes }) => sentBytes / 1e6),
        2,
      )} MB as sent\n` +
      `  memory of the agent ${spread(memory)} MiB, growth ${growth.toFixed(2)}\n` +
      `  counted: ${byHaproxy} by HAProxy, ${byAccount} with accounts, ${byRoute} with routes, ${without} without a place, ${dropped} lines lost`,
  )
  await stop(edge.child)
  const isExact = byHaproxy === sent && byAccount + dropped === sent && byRoute + without === byAccount
  return failed === 0 && isExact && growth <= mostGrowth
}

await drill(async (scope) => {
  const traffic = await createSteadyTraffic()
  scope.after(async () => void (await traffic.stop()))
  const installation = await startInstallation(scope)
  let isGood = true
  for (const places of [1_000, routes]) isGood = (await measure(installation, traffic.upstreamPort, places)) && isGood
  return isGood
})
