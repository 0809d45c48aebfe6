// `npm run drill -- access-log <rounds> <requests per second>`: what recording and logging every request costs HAProxy while
// three people watch, and that every lost line is counted. Two edge nodes serve the same requests in turns: one records and
// logs each of them, the other records only exceptions. HAProxy's processor time for a request with and without, as a ratio;
// no request may fail, lines written and counted as dropped must be all requests, and so must what each of the three was
// shown and what was reported to it as dropped. Then the logging agent is killed under load: HAProxy must go on at its usual
// cost, and lines must come again from the next agent. All that may be lost uncounted are lines that the killed agent had
// read and not written.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { freePort } from '../../dev/ports.ts'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import type { Scope } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { type EdgeProcess, startInstallation } from '../harness/edge.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { type OpenStream, openStream } from '../harness/stream.ts'

const rounds = Number(process.argv[2] ?? 7)
const perSecond = Number(process.argv[3] ?? 2_000)
const seconds = 5
/** Long enough for more lines than HAProxy keeps, so that some are dropped. */
const awaySeconds = 20
const goal = 0.85
const watchers = 3

/** An upstream that costs little beside what is measured. */
async function startCheapUpstream(scope: Scope, folder: string): Promise<number> {
  const port = await freePort()
  const file = join(folder, 'upstream.cfg')
  await writeFile(
    file,
    `defaults\n  mode http\n  timeout client 1m\n  timeout connect 1m\n  timeout server 1m\nfrontend upstream\n  bind 127.0.0.1:${port}\n  http-request return status 200 content-type text/plain string hello\n`,
  )
  const child = spawn('haproxy', ['-db', '-q', '-f', file], { stdio: 'ignore' })
  scope.after(async () => void child.kill('SIGKILL'))
  await setTimeout(500)
  return port
}

/** By port: how many requests a node got. */
const sent = new Map<number, number>()
const connections = new Agent({ keepAlive: true, maxSockets: 50 })
function get({ httpsPort }: EdgeProcess): Promise<boolean> {
  sent.set(httpsPort, (sent.get(httpsPort) ?? 0) + 1)
  return new Promise((resolve) => {
    const options = { host: '127.0.0.1', port: httpsPort, servername: 'web.example', rejectUnauthorized: false }
    const asked = request({ ...options, agent: connections, path: '/some/path?q=1', headers: { Host: 'web.example' } })
    asked.on('error', () => resolve(false))
    asked.on('response', (response) => response.resume().on('end', () => resolve(response.statusCode === 200)))
    asked.end()
  })
}

/** As many as asked for, at an even pace; a client that is late catches up. */
async function load(edge: EdgeProcess, forSeconds: number) {
  const began = performance.now()
  const answers: Promise<boolean>[] = []
  const all = perSecond * forSeconds
  while (answers.length < all) {
    const due = Math.min(all, Math.ceil(((performance.now() - began) / 1_000) * perSecond))
    while (answers.length < due) answers.push(get(edge))
    await setTimeout(5)
  }
  const failed = (await Promise.all(answers)).filter((isGood) => !isGood).length
  return { count: all, failed, tookSeconds: (performance.now() - began) / 1_000 }
}

const runtimeSocket = (edge: EdgeProcess) => join(edge.folder, 'haproxy', 'runtime.sock')
const workerOf = async (edge: EdgeProcess) =>
  /^Pid: (\d+)$/m.exec(await ask(runtimeSocket(edge), 'show info'))?.[1] ?? ''
/** In microseconds. The worker has one thread. */
const processorTime = async (pid: string) =>
  Number((await readFile(`/proc/${pid}/schedstat`, 'utf8')).split(' ')[0]) / 1_000

async function costOf(edge: EdgeProcess, forSeconds = seconds) {
  const pid = await workerOf(edge)
  const before = await processorTime(pid)
  const { count, failed, tookSeconds } = await load(edge, forSeconds)
  return { each: ((await processorTime(pid)) - before) / count, count, failed, tookSeconds }
}

async function metric(edge: EdgeProcess, name: string): Promise<number> {
  const text = await (await fetch(`${edge.statusUrl}/metrics`)).text()
  return [...text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\d+)$`, 'gm'))].reduce(
    (sum, [, value]) => sum + Number(value),
    0,
  )
}
const droppedBy = async (edge: EdgeProcess) =>
  (await metric(edge, 'gatehouse_edge_requests_dropped_total')) +
  (await metric(edge, 'gatehouse_edge_access_log_dropped_total'))

const spread = (values: number[]): string => {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (part: number) => (sorted[Math.round(part * (sorted.length - 1))] ?? 0).toFixed(2)
  return `${at(0.5)} (${at(0.25)}–${at(0.75)}, all ${at(0)}–${at(1)})`
}
const middle = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0

await drill(async (scope) => {
  const installation = await startInstallation(scope)
  const home = await mkdtemp(join(tmpdir(), 'gatehouse-drill-'))
  scope.after(() => rm(home, { recursive: true, force: true }))
  const common = { GATEHOUSE_EDGE_THREADS: '1', GATEHOUSE_EDGE_ACCESS_LOG_MAX_MB: '10000' }
  const withLog = { ...common, GATEHOUSE_EDGE_ACCESS_LOG: join(home, 'access.log') }
  // Both under one name, which is enough for nodes that only read.
  let logging = await installation.startEdge({ env: withLog })
  const quiet = await installation.startEdge({ env: { ...common, GATEHOUSE_EDGE_REQUEST_LINES: 'exceptions' } })
  const { admin } = installation
  const https = await newHttpsEdge(admin, { hostports: ['web.example:443'] })
  const upstreamPort = await startCheapUpstream(scope, home)
  const backend = await make(admin, '/backends/static', { address: `127.0.0.1:${upstreamPort}` })
  const route = { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } }
  await admin('POST', `${https.uri}/routes?wait=applied`, route)
  for (const edge of [logging, quiet]) await poll(() => get(edge))

  const origin = installation.processes[0]?.origin ?? ''
  const tails = await Promise.all(
    Array.from({ length: watchers }, () =>
      openStream(origin, '/requests/stream', { authorization: `Bearer ${admin.token}` }),
    ),
  )
  await poll(async () => (await metric(logging, 'gatehouse_edge_watches')) === watchers)
  const unwatched = sent.get(logging.httpsPort) ?? 0

  // The first round is not counted: connections are made in it.
  const costs: { logging: number; quiet: number }[] = []
  let [failed, slowest] = [0, 0]
  for (let round = 0; round <= rounds; round++) {
    const [first, second] = round % 2 === 0 ? [logging, quiet] : [quiet, logging]
    const results = new Map([[first, await costOf(first)]]).set(second, await costOf(second))
    const of = (edge: EdgeProcess) => results.get(edge) ?? { each: 0, failed: 0, tookSeconds: 0 }
    failed += of(logging).failed + of(quiet).failed
    slowest = Math.max(slowest, of(logging).tookSeconds, of(quiet).tookSeconds)
    if (round > 0) costs.push({ logging: of(logging).each, quiet: of(quiet).each })
  }
  const ratios = costs.map((each) => each.quiet / each.logging)
  console.log(
    `${perSecond} requests/s, ${rounds} rounds of ${seconds} s: ${failed} failed, the slowest round took ${slowest.toFixed(1)} s`,
  )
  console.log(
    `processor time of a request: ${middle(costs.map((each) => each.quiet)).toFixed(1)} µs without, ` +
      `${middle(costs.map((each) => each.logging)).toFixed(1)} µs with; ratio ${spread(ratios)}, goal ${goal}`,
  )
  const isSettled = await accountFor(logging, home, 0)
  const isWatched = await accountForTails(logging, tails, unwatched)
  for (const tail of tails) tail.close()
  // Under load, so that some lines are on their way when it is killed.
  const during = load(logging, 2)
  await setTimeout(1_000)
  const killed = await killUnderLoad(logging, middle(costs.map((each) => each.logging)))
  failed += (await during).failed + killed.failed
  logging = await installation.startEdge({ env: withLog, like: logging })
  failed += (await load(logging, 2)).failed
  const isCounted = await accountFor(logging, home, perSecond)
  return failed === 0 && middle(ratios) >= goal && isSettled && isWatched && isCounted && killed.isSane
})

/** How many lines there are, and whether one is there twice. */
async function linesIn(home: string): Promise<{ lines: number; isDouble: boolean }> {
  const text = await readFile(join(home, 'access.log'), 'utf8')
  const ids = text.split('\n').flatMap((line) => /"gatehouse\.request\.id":"([^"]+)"/.exec(line)?.[1] ?? [])
  return { lines: ids.length, isDouble: new Set(ids).size < ids.length }
}

/** Whether lines and counted drops are all requests. `spared`: how many may be missing. */
async function accountFor(edge: EdgeProcess, home: string, spared: number): Promise<boolean> {
  const requests = sent.get(edge.httpsPort) ?? 0
  const look = async () => ({ ...(await linesIn(home)), dropped: await droppedBy(edge) })
  let state = await look()
  for (let times = 0; times < 100 && state.lines + state.dropped < requests; times++) {
    await setTimeout(100)
    state = await look()
  }
  const lost = requests - state.lines - state.dropped
  console.log(`${requests} requests: ${state.lines} lines, ${state.dropped} counted as dropped, ${lost} neither`)
  return !state.isDouble && lost >= 0 && lost <= spared
}

/** Whether the requests that each watcher saw, and those reported to it as dropped, are all since it began. */
async function accountForTails(edge: EdgeProcess, tails: OpenStream[], unwatched: number): Promise<boolean> {
  const requests =
    (sent.get(edge.httpsPort) ?? 0) - unwatched - (await metric(edge, 'gatehouse_edge_requests_dropped_total'))
  const look = ({ events }: OpenStream) => {
    const shown = events.filter(({ event }) => event === 'request').length
    const dropped = events.reduce((sum, { event, data }) => (event === 'dropped' ? sum + data.count : sum), 0)
    return { shown, dropped, isAll: shown + dropped === requests }
  }
  for (let times = 0; times < 50 && !tails.every((tail) => look(tail).isAll); times++) await setTimeout(100)
  const seen = tails.map(look)
  const list = seen.map(({ shown, dropped }) => `${shown} seen and ${dropped} told of`)
  console.log(`${tails.length} live tails of ${requests} requests: ${list.join(', ')}`)
  return seen.every(({ isAll }) => isAll)
}

/** HAProxy's cost of a request while its agent is away, beside that while it is there; and what a second without any costs. */
async function killUnderLoad(edge: EdgeProcess, usual: number): Promise<{ failed: number; isSane: boolean }> {
  const pid = await workerOf(edge)
  edge.child.kill('SIGKILL')
  await once(edge.child, 'exit')
  const away = await costOf(edge, awaySeconds)
  const before = await processorTime(pid)
  await setTimeout(1_000)
  const idle = ((await processorTime(pid)) - before) / 1_000
  const still = await workerOf(edge)
  console.log(
    `agent killed: ${away.failed} of ${away.count} requests failed, ${away.each.toFixed(1)} µs each ` +
      `(${usual.toFixed(1)} with the agent), ${idle.toFixed(1)} ms in a second without requests`,
  )
  return { failed: away.failed, isSane: still === pid && away.each < 1.5 * usual && idle < 100 }
}
