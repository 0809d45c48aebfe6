// What the edge costs beside three other HAProxy instances in front of the same upstream: `node bench/edge_proxy.ts
// [requests|tcp|cold] [--json]`. The bare one only forwards; the one by hand does for this single edge what ours does for all, in
// its configuration (edge_proxy_others.ts), and another one the same with a line for each request, as ours. Needs haproxy,
// wrk, taskset and openssl. The proxies share one core, and the load and the upstream another. All are under load at the
// same time, so that other work of the machine, and the caches that they share, affect all of them; what counts is the
// processor time of each request.
import { execFile, execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { putEnginesOnPath } from '../dev/engines.ts'
import { createProxy, type EdgeProxy } from '../src/agent/haproxy/apply.ts'
import { type Entry, entriesOf, readyEntries } from '../src/agent/haproxy/maps/entries.ts'
import { ask } from '../src/agent/haproxy/process/runtime.ts'
import { lineSocket, loadedCertificateFolder, policyFolder } from '../src/agent/haproxy/settings.ts'
import { type IdPrefix, newId } from '../src/kernel/ids.ts'
import { policyFile } from '../test/agent/proxy_harness.ts'
import { discardLines, type HeaderOperations, isOpen, startOthers } from './edge_proxy_others.ts'
import { proxySettings } from './harness/proxy_settings.ts'
import type { Compared } from './harness/side_by_side.ts'
import { shown, spreadOf } from './harness/statistics.ts'

putEnginesOnPath()

const { values, positionals } = parseArgs({ allowPositionals: true, options: { json: { type: 'boolean' } } })
const what = positionals[0] ?? 'all'
const routes = Number(process.env.ROUTES ?? 100_000)
/** Under --json, standard output has the figures alone. */
const tell = values.json ? console.error : console.log
const ratios: Pick<Compared, 'of' | 'to' | 'processor'>[] = []
const rounds = Number(process.env.ROUNDS ?? 11)
const seconds = Number(process.env.SECONDS_PER_ROUND ?? 3)
const ports = {
  ...{ upstream: 18_100, bareHttps: 18_101, bareTcp: 18_102, byHandHttps: 18_105, byHandTcp: 18_106 },
  ...{ loggedHttps: 18_107, loggedTcp: 18_108 },
  ...{ https: 18_103, tcp: 18_200 },
}
/** Nothing is pinned where there is only one. */
const cores = { proxy: '0', load: '1' }
const pinned = (of: 'proxy' | 'load', command: string[]): string[] =>
  availableParallelism() > 1 ? ['taskset', '-c', cores[of], ...command] : command
const id = (prefix: IdPrefix) => newId(prefix)

const folder = await mkdtemp(join(tmpdir(), 'gatehouse-bench-'))
const settings = proxySettings(folder, ports.https, [ports.tcp, ports.tcp + 9])
const account = id('ac')
const backend = id('bkdst')
const policy = id('ipp')

/** A policy of some size, with our own address in it. */
const ranges = [...Array.from({ length: 10_000 }, (_, index) => `10.${index >> 8}.${index & 255}.0/28`), '127.0.0.0/8']
const rangeFile = join(folder, 'ranges.lst')

/** HAProxy remembers what its patterns said about a text: with the same request each time, that would flatter ours. */
const varyingRequests = join(folder, 'requests.lua')
const varyingRequestsScript = `local count = 0
function request()
  count = count + 1
  wrk.headers['Cookie'] = 'session=' .. count
  return wrk.format()
end
`

async function prepareFiles(): Promise<string> {
  await mkdir(settings.certificateFolder, { recursive: true })
  await mkdir(policyFolder(settings), { recursive: true })
  const pem = execFileSync(
    'openssl',
    'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=app.example.com -addext subjectAltName=DNS:app.example.com,DNS:localhost -keyout - -out -'.split(
      ' ',
    ),
    { stdio: ['ignore', 'pipe', 'ignore'] },
  )
  await writeFile(join(settings.certificateFolder, 'app.pem'), pem)
  const bytes = policyFile(...ranges.map((range) => `allow ${range}`))
  await writeFile(rangeFile, `${ranges.join('\n')}\n`)
  await writeFile(varyingRequests, varyingRequestsScript)
  const hash = createHash('sha256').update(bytes).digest('hex')
  await writeFile(join(policyFolder(settings), hash), bytes)
  return hash
}

const headers: HeaderOperations = {
  add: [
    ['X-User', 'someone'],
    ['X-Tenant', 'acme'],
    ['Authorization', 'Basic dXNlcjpwYXNz'],
  ],
  remove: ['X-Debug', 'X-Internal'],
}

/** `count` of routes and of TCP edges, of which those that are measured are the last. */
function* records(count: number, hash: string): Generator<Entry> {
  const of = (key: string, value: unknown) => entriesOf(key, value)
  yield* readyEntries
  yield* of(`policy.${policy}`, hash)
  yield* of(`restrictions.${account}`, { sets: [] })
  yield* of(`backend.${backend}`, { address: '127.0.0.1', port: ports.upstream, tls: false, host: 'upstream.test' })
  const route = { account, backend, policies: null, headers: null, match_type: 'path_prefix', match: '/' }
  const tcp = { account, backend, policies: [policy] }
  for (let index = 0; index < count; index++) {
    const edge = id('edghts')
    const isLast = index === count - 1
    // wrk sends the host of its URL in the handshake, and a connection serves one edge.
    const hosts = isLast ? ['app.example.com', 'localhost'] : [`h${index}.example.com`]
    yield* of(`https.${edge}`, { hostports: hosts.map((host) => `${host}:443`) })
    yield* of(`route.${id('edghtsrt')}`, { ...route, edge, match: '/some/path' })
    if (isLast) {
      yield* of(`route.${id('edghtsrt')}`, { ...route, edge, match: '/headers', headers })
      yield* of(`route.${id('edghtsrt')}`, { ...route, edge, match: '/policy', policies: [policy] })
    }
    const address = isLast ? '127.0.0.1' : `10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`
    yield* of(`tcp.${id('edgtcp')}`, { ...tcp, hostports: [`${address}:${ports.tcp}`] })
  }
}

type Load = { pid: number; url: string; headers: string[] }
/** Requests, or connections when each has its own. */
async function wrk({ url, headers: sent }: Load): Promise<number> {
  const script = url.startsWith('https') ? ['-s', varyingRequests] : []
  const args = ['-t1', '-c10', `-d${seconds}s`, ...script, ...sent.flatMap((line) => ['-H', line]), url]
  const [command = '', ...rest] = pinned('load', ['wrk', ...args])
  const { stdout } = await promisify(execFile)(command, rest)
  if (/Non-2xx|Socket errors: connect [1-9]/.test(stdout)) throw new Error(stdout)
  return Number(/(\d+) requests in/.exec(stdout)?.[1])
}

/** Processor time that a process with one thread has used, in microseconds. */
async function processorTime(pid: number): Promise<number> {
  return Number((await readFile(`/proc/${pid}/schedstat`, 'utf8')).split(' ')[0]) / 1_000
}

/** What each request cost the proxy. */
async function cost(load: Load): Promise<number> {
  const before = await processorTime(load.pid)
  const requests = await wrk(load)
  return ((await processorTime(load.pid)) - before) / requests
}

const middle = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
type Proxy = 'bare' | 'byHand' | 'logged' | 'ours'
const names = {
  bare: 'bare HAProxy',
  byHand: 'HAProxy by hand',
  logged: 'HAProxy by hand with a line for each request',
}
async function compare(
  title: string,
  goals: Record<'bare' | 'logged', number>,
  loads: Record<Proxy, Load>,
): Promise<void> {
  const costs: Record<Proxy, number>[] = []
  // The first is not counted: connections to the upstream are made, and policies read.
  for (let round = 0; round <= rounds; round++) {
    const [bare = 0, byHand = 0, logged = 0, ours = 0] = await Promise.all(
      [loads.bare, loads.byHand, loads.logged, loads.ours].map(cost),
    )
    if (round > 0) costs.push({ bare, byHand, logged, ours })
  }
  const beside = (other: 'bare' | 'byHand' | 'logged') => {
    const processor = spreadOf(costs.map((each) => each[other] / each.ours))
    ratios.push({ of: title, to: names[other], processor })
    return shown(processor)
  }
  const of = (proxy: Proxy) => `${middle(costs.map((each) => each[proxy])).toFixed(1)} µs`
  tell(
    `${title}\n  of ${names.bare}: ${beside('bare')}, goal ${goals.bare}\n  of ${names.byHand}: ${beside('byHand')}\n` +
      `  of ${names.logged}: ${beside('logged')}, goal ${goals.logged}\n` +
      `  processor time of a request: bare ${of('bare')}, by hand ${of('byHand')}, with lines ${of('logged')}, ours ${of('ours')}`,
  )
}

async function memoryOf(pid: string): Promise<number> {
  return Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}
const workerPid = async () => /^Pid: (\d+)$/m.exec(await ask(settings.runtimeSocket, 'show info'))?.[1] ?? ''

let running: EdgeProxy | undefined
async function startOurs(count: number, hash: string) {
  const all = [...records(count, hash)]
  const proxy = createProxy(settings, { onTrouble: (problem) => console.error(problem) })
  running = proxy
  const began = performance.now()
  await proxy.start(all)
  return { proxy, all, milliseconds: performance.now() - began }
}

// HAProxy would outlive us.
process.on('SIGINT', () => void running?.stop().finally(() => process.exit(130)))

// HAProxy outlives a bench that is killed, and would share its port with this one.
for (const port of Object.values(ports))
  if (await isOpen(port)) throw new Error(`something listens on port ${port}; end it first`)
const hash = await prepareFiles()
try {
  if (what === 'all' || what === 'cold') {
    for (const count of [1_000, 10_000, 100_000]) {
      const { proxy, all, milliseconds } = await startOurs(count, hash)
      const memory = await memoryOf(await workerPid())
      const began = performance.now()
      const changes = 20
      for (let index = 0; index < changes; index++) {
        const [old] = entriesOf(`policy.${policy}`, index % 2 ? hash : '0'.repeat(64))
        const [now] = entriesOf(`policy.${policy}`, index % 2 ? '0'.repeat(64) : hash)
        if (old && now) await proxy.apply({ del: [old], set: [now] })
      }
      const policyMs = (performance.now() - began) / changes
      const tcpBegan = performance.now()
      const tcp = all.filter(({ map }) => map === 'tcp').slice(0, changes)
      for (const entry of tcp) await proxy.apply({ del: [entry], set: [] })
      const deleteMs = (performance.now() - tcpBegan) / changes
      const bulkBegan = performance.now()
      await proxy.apply({ del: [], set: tcp.map((each) => ({ ...each, value: each.value.replace(policy, '') })) })
      const addMs = (performance.now() - bulkBegan) / changes
      const many = all.filter(({ map }) => map === 'tcp').slice(changes, changes + 500)
      const manyBegan = performance.now()
      await proxy.apply({ del: many, set: [] })
      const manyMs = performance.now() - manyBegan
      await proxy.stop()
      running = undefined
      tell(
        `${count} routes and TCP edges (${all.length} entries): cold start ${milliseconds.toFixed(0)} ms, ` +
          `worker ${memory.toFixed(0)} MB; one change: policy ${policyMs.toFixed(1)} ms, TCP edge deleted ` +
          `${deleteMs.toFixed(1)} ms, added ${addMs.toFixed(1)} ms; 500 deleted at once ${manyMs.toFixed(0)} ms`,
      )
    }
  }
  if (what !== 'cold') {
    await discardLines(lineSocket(settings))
    await startOurs(routes, hash)
    const certificates = loadedCertificateFolder(settings)
    const others = await startOthers({ folder, certificates, ranges: rangeFile, headers, ports, pinned })
    const pids = { ...others, ours: Number(await workerPid()) }
    if (availableParallelism() > 1)
      execFileSync('taskset', ['-apc', cores.proxy, String(pids.ours)], { stdio: 'ignore' })
    const ordinary = ['Host: app.example.com', 'User-Agent: bench/1.0', 'Accept: */*', 'Accept-Encoding: gzip']
    const at = (url: (port: number) => string, sent: string[], to: Record<Proxy, number>): Record<Proxy, Load> => ({
      bare: { pid: pids.bare, url: url(to.bare), headers: sent },
      byHand: { pid: pids.byHand, url: url(to.byHand), headers: sent },
      logged: { pid: pids.logged, url: url(to.logged), headers: sent },
      ours: { pid: pids.ours, url: url(to.ours), headers: sent },
    })
    const requests = (path: string, sent = ordinary) =>
      at((port) => `https://localhost:${port}${path}`, sent, {
        bare: ports.bareHttps,
        byHand: ports.byHandHttps,
        logged: ports.loggedHttps,
        ours: ports.https,
      })
    if (what !== 'tcp') {
      await compare('requests, no module', { bare: 0.85, logged: 0.95 }, requests('/some/path'))
      await compare('requests, 5 header operations', { bare: 0.75, logged: 0.92 }, requests('/headers'))
      await compare(
        'requests, 5 header operations, of which one has something to remove',
        { bare: 0.75, logged: 0.92 },
        requests('/headers', [...ordinary, 'X-Debug: 1']),
      )
      await compare('requests, a policy of 10,000 ranges', { bare: 0.7, logged: 0.9 }, requests('/policy'))
    }
    if (what !== 'requests') {
      const destinations = { bare: ports.bareTcp, byHand: ports.byHandTcp, logged: ports.loggedTcp, ours: ports.tcp }
      const loads = at((port) => `http://127.0.0.1:${port}/`, ['Connection: close'], destinations)
      await compare('TCP connections, a policy of 10,000 ranges', { bare: 0.9, logged: 0.92 }, loads)
    }
  }
} finally {
  await running?.stop()
  await rm(folder, { recursive: true, force: true })
}
if (values.json) console.log(JSON.stringify({ ratios }))
process.exit(0)
