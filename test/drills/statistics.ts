// `npm run drill -- statistics <requests> <routes>`: requests through two nodes, while the agents and the control plane are
// restarted and killed, are all in the traffic statistics, exactly, and quantiles are within 2 % of the true ones. The true
// ones are of the durations in the access logs of the nodes. Then each of many routes is asked on both nodes: the account has
// at most 1,000 rows for an hour besides one for each node, and its sums are still exact.
import { createReadStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { startNats } from '../../dev/nats.ts'
import { freePort } from '../../dev/ports.ts'
import { one } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { type Scope, stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { type EdgeProcess, type Installation, startInstallation } from '../harness/edge.ts'
import { make, newPolicy } from '../harness/fixtures.ts'
import { h2load } from '../harness/h2load.ts'
import { putRules } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { withSecondNode } from '../hostile/stolen_node.ts'

const wanted = Number(process.argv[2] ?? 40_000)
const routes = Number(process.argv[3] ?? 1_100)
const clients = 25
const rounds = 6
const nodes = ['edge-1', 'edge-2'] as const
type Node = (typeof nodes)[number]

/** One of a hundred requests each is for these; the others are for `/fast`, which takes no time, or for `/slow`. */
const shares = { slow: 45, error: 5, refused: 5, gone: 1 }
const urlsOf = (host: string): string[] =>
  Array.from({ length: 100 }, (_, index) => {
    let left = (index * 37) % 100
    for (const [name, share] of Object.entries(shares)) {
      if (left < share) return `https://${host}/${name}`
      left -= share
    }
    return `https://${host}/fast`
  })

/** In a thread of its own: what delays the drill must not delay answers. */
function serve(): void {
  let asked = 0
  // Spread evenly over the logarithm of 2 to 200 ms, in an order without a pattern.
  const delayMs = () => 2 * 100 ** ((++asked * 0.618_033_988_75) % 1)
  const server = createServer({ keepAliveTimeout: 600_000 }, ({ url }, response) => {
    if (url === '/error') response.statusCode = 500
    if (url === '/slow') setTimeout(() => response.end('slow'), delayMs())
    else response.end('fast')
  })
  server.listen(0, '127.0.0.1', () => parentPort?.postMessage((server.address() as AddressInfo).port))
}

async function startUpstream(scope: Scope): Promise<number> {
  const worker = new Worker(new URL(import.meta.url), { workerData: 'upstream' })
  scope.after(async () => void (await worker.terminate()))
  return new Promise((resolve) => worker.once('message', resolve))
}

const host = 'app.example'

async function furnish({ admin }: Installation, upstreamPort: number) {
  const backend = await make(admin, '/backends/static', { address: `127.0.0.1:${upstreamPort}` })
  const nowhere = await make(admin, '/backends/static', { address: `127.0.0.1:${await freePort()}` })
  const policy = await newPolicy(admin)
  await putRules(admin, policy.id, ['allow 192.0.2.0/24'])
  const edge = await make(admin, '/edges/https', { hostports: [`${host}:443`] })
  const route = (match: string, to: { id: string }, more: object = {}) =>
    make(admin, `/edges/https/${edge.id}/routes`, {
      ...{ match_type: 'exact_path', match, backend: { backend_id: to.id } },
      ...more,
    })
  const ids = {
    fast: (await route('/fast', backend)).id,
    slow: (await route('/slow', backend)).id,
    error: (await route('/error', backend)).id,
    refused: (await route('/refused', backend, { ip_restriction: { ip_policy_ids: [policy.id] } })).id,
    gone: (await route('/gone', nowhere)).id,
  }
  return { backend, ids }
}

/** What ended on a node, by its own log: how many, and how long those took that have a latency. */
async function logged(file: string): Promise<{ lines: number; milliseconds: number[] }> {
  const milliseconds: number[] = []
  let lines = 0
  for await (const line of createInterface({ input: createReadStream(file) })) {
    const record = JSON.parse(line)
    lines++
    const { 'gatehouse.outcome': outcome, 'http.response.status_code': status } = record
    if (status && outcome !== 'refused' && outcome !== 'limited') milliseconds.push(record['gatehouse.duration_ms'])
  }
  return { lines, milliseconds: milliseconds.sort((a, b) => a - b) }
}
/** The smallest that is not exceeded by this share of all. */
const trueQuantile = (sorted: readonly number[], share: number): number =>
  sorted[Math.ceil(share * sorted.length) - 1] ?? Number.NaN

type Sums = {
  requests: number
  refused: number
  errors: Record<string, number>
  latency_ms: Record<'p50' | 'p95' | 'p99', number> | null
}
type Group = { route_id?: string; node?: string; sums: Sums; points: { requests: number }[] }

const isEqual = (what: string, found: number | undefined, expected: number): boolean => {
  console.log(`  ${what}: ${found}${found === expected ? '' : `, and ${expected} were sent`}`)
  return found === expected
}

function areQuantilesTrue(what: string, { latency_ms }: Sums, sorted: readonly number[]): boolean {
  const compared = ([50, 95, 99] as const).map((percent) => {
    const found = latency_ms?.[`p${percent}`] ?? Number.NaN
    const exact = trueQuantile(sorted, percent / 100)
    return { percent, found, exact, off: exact === 0 ? found : Math.abs(found - exact) / exact }
  })
  const words = compared.map(
    ({ percent, found, exact, off }) =>
      `p${percent} ${found.toFixed(1)} ms, truly ${exact} (${(100 * off).toFixed(2)} %)`,
  )
  console.log(`  ${what}: ${words.join('; ')}`)
  return compared.every(({ off }) => off <= 0.02)
}

type Edges = Map<Node, { process: EdgeProcess; log: string }>

await drillOrServe()
async function drillOrServe(): Promise<void> {
  if (!isMainThread && workerData === 'upstream') serve()
  else await drill(run)
}

async function run(scope: Scope): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-drill-'))
  scope.after(() => rm(folder, { recursive: true, force: true }))
  const nats = startNats({ authorization: await withSecondNode(folder) })
  // One address, however often it is restarted.
  const listen = { GATEHOUSE_LISTEN: `127.0.0.1:${await freePort()}` }
  const installation = await startInstallation(scope, listen, undefined, nats)
  const { admin } = installation
  const edges: Edges = new Map()
  const start = async (node: Node, more: { cutOff?: boolean } = {}) => {
    const known = edges.get(node)
    const log = join(folder, `${node}.log`)
    const env = {
      ...{ GATEHOUSE_EDGE_NODE: node, GATEHOUSE_NATS_USER: node, GATEHOUSE_NATS_PASSWORD: node },
      ...{ GATEHOUSE_EDGE_ACCESS_LOG: log, GATEHOUSE_EDGE_ACCESS_LOG_MAX_MB: '10000' },
    }
    const process = await installation.startEdge({ env, ...(known && { like: known.process }), ...more })
    edges.set(node, { process, log })
  }
  for (const node of nodes) await start(node)
  const { ids, backend } = await furnish(installation, await startUpstream(scope))
  await poll(
    async () => (await admin('GET', '/edge_nodes')).body,
    ({ edge_nodes, newest_generation }) =>
      edge_nodes.every((each: { applied_generation: number }) => each.applied_generation >= newest_generation),
  )
  const began = Date.now()
  const statuses = await sendAll({ installation, edges, start, folder })
  const seconds = (Date.now() - began) / 1_000
  const sent = [...statuses.values()].reduce((sum, count) => sum + count, 0)
  console.log(
    `${sent} requests in ${seconds.toFixed(0)} s: ${[...statuses].map((each) => each.join(' × ')).join(', ')}`,
  )
  const isCounted = await compare(installation, edges, { sent, ids })
  return (await isBounded(installation, edges, { folder, sent, backend: backend.id })) && isCounted
}

type Drilled = {
  installation: Installation
  edges: Edges
  start: (node: Node, more?: { cutOff?: boolean }) => Promise<void>
  folder: string
}

/** Both nodes at once, in rounds with something ending between or in them. Resolves to the statuses. */
async function sendAll({ installation, edges, start, folder }: Drilled): Promise<Map<string, number>> {
  const all = new Map<string, number>()
  const times = Math.ceil(wanted / nodes.length / rounds / clients / 100)
  const load = async (node: Node) => {
    const { httpsPort } = edges.get(node)?.process ?? { httpsPort: 0 }
    const statuses = await h2load({ folder, name: node, httpsPort, urls: urlsOf(host), times, clients })
    for (const [status, count] of statuses) all.set(status, (all.get(status) ?? 0) + count)
  }
  const restart = async (node: Node, more = {}) => {
    const { process } = edges.get(node) ?? {}
    if (process) await stop(process.child)
    await start(node, more)
  }
  const both = () => Promise.all(nodes.map(load))
  const endControlPlane = async (signal: NodeJS.Signals) => {
    const { child } = installation.processes[0] ?? {}
    child?.kill(signal)
    if (child && child.exitCode === null && child.signalCode === null)
      await new Promise((resolve) => child.once('exit', resolve))
  }
  const startControlPlane = async () => {
    await installation.startProcess()
    installation.processes.splice(0, installation.processes.length - 1)
  }
  const step = (what: string) => console.log(what)

  await both()
  step('the agent of edge-1 is restarted while edge-2 serves')
  await Promise.all([load('edge-1').then(() => restart('edge-1')), load('edge-2')])
  step('the control plane is killed under load, and started again')
  await Promise.all([both(), endControlPlane('SIGKILL').then(startControlPlane)])
  step('without a control plane, both serve, and the agent of edge-2 is restarted: its counts wait on disk')
  await endControlPlane('SIGTERM')
  await both()
  await restart('edge-2', { cutOff: true })
  await both()
  await startControlPlane()
  step('the control plane is restarted under load')
  await Promise.all([both(), endControlPlane('SIGTERM').then(startControlPlane)])
  return all
}

async function compare(
  { admin }: Installation,
  edges: Edges,
  { sent, ids }: { sent: number; ids: Record<string, string> },
): Promise<boolean> {
  const read = async (query: string): Promise<Group[]> => {
    const { status, body, text } = await admin('GET', `/traffic_statistics?${query}`)
    if (status !== 200) throw new Error(text)
    return body.groups
  }
  // Agents send every five seconds, and a batch whose answer was lost once more.
  const [total] = await poll(
    () => read('by=account'),
    ([group]) => (group?.sums.requests ?? 0) >= sent,
    { withinSeconds: 60 },
  ).catch(() => read('by=account'))
  if (!total) return false
  let isGood = isEqual('requests of the account', total.sums.requests, sent)
  const byRoute = new Map((await read('by=route')).map((group) => [group.route_id, group.sums]))
  const of = (name: string) => byRoute.get(ids[name])
  for (const [name, share] of [...Object.entries(shares), ['fast', 100 - 56] as const])
    isGood = isEqual(`requests of /${name}`, of(name)?.requests, (sent * share) / 100) && isGood
  isGood = isEqual('refused', of('refused')?.refused, (sent * shares.refused) / 100) && isGood
  isGood = isEqual('errors of the backend', of('error')?.errors.backend_5xx, (sent * shares.error) / 100) && isGood
  isGood = isEqual('unreachable', of('gone')?.errors.unreachable, (sent * shares.gone) / 100) && isGood
  for (const step of ['minute', 'hour']) {
    const [group] = await read(`by=account&step=${step}`)
    const sum = group?.points.reduce((all, { requests }) => all + requests, 0)
    isGood = isEqual(`sum of its ${step}s`, sum, sent) && isGood
  }
  const byNode = new Map((await read('by=node')).map((group) => [group.node, group.sums]))
  const everything: number[] = []
  for (const [node, { log }] of edges) {
    const { lines, milliseconds } = await logged(log)
    const sums = byNode.get(node)
    if (!sums) return false
    isGood = isEqual(`requests of ${node}`, sums.requests, lines) && isGood
    isGood = areQuantilesTrue(node, sums, milliseconds) && isGood
    for (const each of milliseconds) everything.push(each)
  }
  return (
    areQuantilesTrue(
      'the account',
      total.sums,
      everything.sort((a, b) => a - b),
    ) && isGood
  )
}

type Asked = { folder: string; sent: number; backend: string }

/** An account with more routes that are asked than it has rows for an hour. */
async function isBounded(
  { admin, db }: Installation,
  edges: Edges,
  { folder, sent, backend }: Asked,
): Promise<boolean> {
  const to = { backend: { backend_id: backend } }
  const hosts: string[][] = []
  // An edge has at most 1,000 routes.
  for (let from = 0; from < routes; from += 500) {
    const host = `many-${from}.example`
    const edge = await make(admin, '/edges/https', { hostports: [`${host}:443`] })
    const matches = Array.from({ length: Math.min(500, routes - from) }, (_, index) => `/r${from + index}`)
    for (let first = 0; first < matches.length; first += 50)
      await Promise.all(
        matches
          .slice(first, first + 50)
          .map((match) => make(admin, `/edges/https/${edge.id}/routes`, { match_type: 'exact_path', match, ...to })),
      )
    hosts.push(matches.map((match) => `https://${host}${match}`))
  }
  const { body } = await admin('GET', '/edge_nodes')
  await poll(
    async () => (await admin('GET', '/edge_nodes')).body.edge_nodes,
    (all: { applied_generation: number }[]) => all.every((each) => each.applied_generation >= body.newest_generation),
    { withinSeconds: 120 },
  )
  // A connection is for one host name.
  for (const [node, { process }] of edges)
    for (const urls of hosts)
      await h2load({ folder, name: node, httpsPort: process.httpsPort, urls, times: 2, clients: 1 })
  const all = sent + routes * 2 * nodes.length
  const read = async () => (await admin('GET', '/traffic_statistics')).body.groups[0].sums.requests
  const counted = await poll(read, (requests) => requests >= all, { withinSeconds: 60 }).catch(read)
  const account = toUuid(admin.accountId as Id<'ac'>)
  const rows = await one<{ hours: number; minutes: number; bytes: number; most: number }>(
    db,
    sql`
    select (select count(*) from traffic_hours where account_id = ${account}) as hours,
      (select count(*) from traffic_minutes where account_id = ${account}) as minutes,
      (select max(count) from (select count(*) from traffic_hours where account_id = ${account} group by at) h) as most,
      pg_total_relation_size('traffic_hours') + pg_total_relation_size('traffic_minutes') as bytes`,
  )
  console.log(
    `${routes} routes asked on two nodes: ${rows.most} rows in its fullest hour, ${rows.hours} for hours and ` +
      `${rows.minutes} for minutes, ${(Number(rows.bytes) / 1e6).toFixed(1)} MB with indexes`,
  )
  return isEqual('requests of the account', counted, all) && Number(rows.most) <= 1_000 + nodes.length
}
