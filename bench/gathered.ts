// What the reads of the overview cost `serve`, one by one and in one request, in turns.
//   node bench/gathered.ts [--rounds 7] [--times 60]
import { readdir, readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { shown, spreadOf } from './harness/statistics.ts'
import { createWorld } from './harness/world.ts'

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '7' }, times: { type: 'string', default: '60' } },
})
const times = Number(values.times)
const hour = new Date(Date.now() - 24 * 60 * 60 * 1_000).toISOString()
const reads = [
  ...['/edge_nodes', '/users', '/bot_users', '/change_sets?unconfirmed=true&limit=5', '/newly_refused_addresses'],
  ...[
    '/edges/https',
    '/edges/tcp',
    '/backends/static',
    '/backends/weighted',
    '/backends/failover',
    '/reserved_domains',
  ],
  ...['/tls_certificates', '/webhook_destinations', '/ip_policies', '/ip_restrictions', '/ip_activity?hours=24'],
  ...[`/traffic_statistics?since=${hour}&step=hour`, '/api_keys', '/ip_refusals?limit=100'],
  ...['/requests?outcome=refused&limit=100', '/audit_events?limit=100'],
]

const world = await createWorld({ keys: 1_000 })
const { pid, origin } = await world.gatehouse()
const headers = { Authorization: `Bearer ${world.token}`, 'Service-Version': '2', 'Accept-Encoding': 'br' }
const read = async (path: string) => {
  const response = await fetch(origin + path, { headers })
  if (response.status !== 200) throw new Error(await response.text())
  return (await response.arrayBuffer()).byteLength
}
const together = `/dashboard/reads?of=${reads.map((path) => encodeURIComponent(path)).join('&of=')}`
const ways = {
  'one by one': async () => {
    // As many at once as a browser has connections.
    const left = [...reads]
    await Promise.all(
      Array.from({ length: 6 }, async () => {
        for (let path = left.pop(); path; path = left.pop()) await read(path)
      }),
    )
  },
  'in one request': () => read(together),
}
const measured = Object.entries(ways).map(([name, work]) => ({ name, work, ms: [] as number[] }))
for (let round = -1; round < Number(values.rounds); round++)
  for (const { work, ms } of measured) {
    const before = await processorMs()
    for (let time = 0; time < times; time++) await work()
    if (round >= 0) ms.push(((await processorMs()) - before) / times)
  }
for (const { name, ms } of measured)
  console.log(`${name}: ${shown(spreadOf(ms), 1)} ms of the processor for ${reads.length} reads`)
const [alone, gathered] = measured.map(({ ms }) => ms)
console.log(`ratio: ${shown(spreadOf((gathered ?? []).map((ms, round) => ms / (alone?.[round] ?? 0))))}`)
await world.end()
process.exit(0)

async function processorMs(): Promise<number> {
  let sum = 0
  for (const thread of await readdir(`/proc/${pid}/task`))
    sum += Number((await readFile(`/proc/${pid}/task/${thread}/schedstat`, 'utf8')).split(' ')[0])
  return sum / 1e6
}
