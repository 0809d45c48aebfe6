// What the edge costs beside a bare HAProxy in front of the same upstream: `node bench/edge_proxy.ts [requests|tcp|cold]`
// Needs haproxy, wrk and openssl. Slices alternate between the two, so that a busy moment of the machine hits both.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { createProxy, type EdgeProxy } from '../src/edge/haproxy/apply.ts'
import { type Entry, entriesOf } from '../src/edge/haproxy/entries.ts'
import { ask } from '../src/edge/haproxy/runtime.ts'
import { loadedCertificateFolder, type ProxySettings, policyFolder } from '../src/edge/haproxy/settings.ts'
import { type IdPrefix, newId } from '../src/kernel/ids.ts'
import { policyFile } from '../test/edge/proxy_harness.ts'

const what = process.argv[2] ?? 'all'
const slices = Number(process.env.SLICES ?? 9)
const seconds = Number(process.env.SECONDS_PER_SLICE ?? 2)
const ports = { upstream: 18_100, bareHttps: 18_101, bareTcp: 18_102, https: 18_103, tcp: 18_200 }
const id = (prefix: IdPrefix) => newId(prefix)

const folder = await mkdtemp(join(tmpdir(), 'gatehouse-bench-'))
const settings: ProxySettings = {
  folder,
  tcpBind: { addresses: ['127.0.0.1'], first: ports.tcp, last: ports.tcp + 9 },
  httpsBind: [`127.0.0.1:${ports.https}`],
  certificateFolder: join(folder, 'operator'),
  runtimeSocket: join(folder, 'runtime.sock'),
  masterSocket: join(folder, 'master.sock'),
  eventPort: 18_104,
  threads: 1,
  caFile: '/etc/ssl/certs/ca-certificates.crt',
  maxconn: 4_000,
}
const account = id('ac')
const backend = id('bkdst')
const policy = id('ipp')

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
  // A policy of some size: 10,000 ranges, ours among them.
  const rules = Array.from({ length: 10_000 }, (_, index) => `allow 10.${index >> 8}.${index & 255}.0/28`)
  const bytes = policyFile(...rules, 'allow 127.0.0.0/8')
  const hash = createHash('sha256').update(bytes).digest('hex')
  await writeFile(join(policyFolder(settings), hash), bytes)
  return hash
}

/** The fast upstream, and the bare proxy beside ours: the same TLS, keep-alive and thread count, no decisions. */
async function startOthers(): Promise<ChildProcess> {
  const config = `global
  nbthread 1
  maxconn 4000
  tune.bufsize 32768
  tune.maxrewrite 16384
  ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
  timeout connect 5s
  timeout client 60s
  timeout server 60s
`
  const upstream = `${config}frontend upstream
  mode http
  bind 127.0.0.1:${ports.upstream}
  http-request return status 200 content-type text/plain string hello
`
  const bare = `${config}frontend https
  mode http
  bind 127.0.0.1:${ports.bareHttps} ssl crt ${loadedCertificateFolder(settings)} strict-sni alpn h2,http/1.1
  default_backend plain
backend plain
  mode http
  server s 127.0.0.1:${ports.upstream}
frontend tcp
  mode tcp
  bind 127.0.0.1:${ports.bareTcp}
  default_backend tcp
backend tcp
  mode tcp
  server s 127.0.0.1:${ports.upstream}
`
  await writeFile(join(folder, 'upstream.cfg'), upstream)
  await writeFile(join(folder, 'bare.cfg'), bare)
  const started = ['upstream', 'bare'].map((name) =>
    spawn('haproxy', ['-db', '-q', '-f', join(folder, `${name}.cfg`)], { stdio: 'inherit' }),
  )
  process.on('exit', () => {
    for (const each of started) each.kill('SIGKILL')
  })
  for (const port of [ports.upstream, ports.bareHttps]) {
    const answers = () =>
      new Promise((resolve) => connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false)))
    while (!(await answers())) await setTimeout(50)
  }
  return started[1] as ChildProcess
}

const headers = {
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
  yield* of(`policy.${policy}`, hash)
  yield* of(`backend.${backend}`, { address: '127.0.0.1', port: ports.upstream, tls: false, host: 'upstream.test' })
  const route = { account, backend, policies: null, headers: null, match_type: 'path_prefix', match: '/' }
  const tcp = { account, backend, policies: [policy] }
  for (let index = 0; index < count; index++) {
    const edge = id('edghts')
    const isLast = index === count - 1
    yield* of(`https.${edge}`, { hostports: [`${isLast ? 'app' : `h${index}`}.example.com:443`] })
    yield* of(`route.${id('edghtsrt')}`, { ...route, edge, match: '/some/path' })
    if (isLast) {
      yield* of(`route.${id('edghtsrt')}`, { ...route, edge, match: '/headers', headers })
      yield* of(`route.${id('edghtsrt')}`, { ...route, edge, match: '/policy', policies: [policy] })
    }
    const address = isLast ? '127.0.0.1' : `10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`
    yield* of(`tcp.${id('edgtcp')}`, { ...tcp, hostports: [`${address}:${ports.tcp}`] })
  }
}

type Load = { pid: number; url: string; headers?: string[]; connections?: number }
function wrk({ url, headers: sent = [], connections = 32 }: Load): number {
  const args = ['-t1', `-c${connections}`, `-d${seconds}s`, ...sent.flatMap((line) => ['-H', line]), url]
  const output = execFileSync('wrk', args, { encoding: 'utf8' })
  if (/Non-2xx|Socket errors: connect [1-9]/.test(output)) throw new Error(output)
  return Number(/Requests\/sec:\s+([\d.]+)/.exec(output)?.[1])
}

/** Processor time that a process has used, in microseconds; the kernel counts in hundredths of a second. */
async function processorTime(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}

/** Requests a second, and what each costs the proxy: the second does not depend on what else the machine does. */
async function slice(load: Load): Promise<{ rate: number; cost: number }> {
  const before = await processorTime(load.pid)
  const rate = wrk(load)
  return { rate, cost: ((await processorTime(load.pid)) - before) / (rate * seconds) }
}

const middle = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
const spread = (values: number[]) =>
  `${middle(values).toFixed(2)} (${Math.min(...values).toFixed(2)}–${Math.max(...values).toFixed(2)})`

/** Two loads, slice by slice, in both orders. */
async function compare(title: string, goal: number, bare: Load, ours: Load): Promise<void> {
  wrk(bare)
  wrk(ours)
  const pairs: Record<'bare' | 'ours', { rate: number; cost: number }>[] = []
  for (let index = 0; index < slices; index++) {
    const order = index % 2 === 0 ? [bare, ours] : [ours, bare]
    const results = [await slice(order[0] as Load), await slice(order[1] as Load)]
    if (index % 2) results.reverse()
    const [first, second] = results
    if (first && second) pairs.push({ bare: first, ours: second })
  }
  const rates = spread(pairs.map((pair) => pair.ours.rate / pair.bare.rate))
  const costs = spread(pairs.map((pair) => pair.bare.cost / pair.ours.cost))
  const absolute = (pick: 'bare' | 'ours') =>
    `${middle(pairs.map((pair) => pair[pick].cost)).toFixed(1)} µs, ${Math.round(middle(pairs.map((pair) => pair[pick].rate)))}/s`
  console.log(
    `${title}: by processor time ${costs}, by rate ${rates} of bare HAProxy, goal ${goal}; ours ${absolute('ours')}; bare ${absolute('bare')}`,
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
        if (old && now) await proxy.apply({ del: [old], set: [now] }, () => all)
      }
      const policyMs = (performance.now() - began) / changes
      const tcpBegan = performance.now()
      const tcp = all.filter(({ map }) => map === 'tcp').slice(0, changes)
      for (const entry of tcp) await proxy.apply({ del: [entry], set: [] }, () => all)
      const deleteMs = (performance.now() - tcpBegan) / changes
      const bulkBegan = performance.now()
      await proxy.apply(
        { del: [], set: tcp.map((each) => ({ ...each, value: each.value.replace(policy, '') })) },
        () => all,
      )
      const addMs = (performance.now() - bulkBegan) / changes
      const many = all.filter(({ map }) => map === 'tcp').slice(changes, changes + 500)
      const manyBegan = performance.now()
      await proxy.apply({ del: many, set: [] }, () => all)
      const manyMs = performance.now() - manyBegan
      await proxy.stop()
      running = undefined
      console.log(
        `${count} routes and TCP edges (${all.length} entries): cold start ${milliseconds.toFixed(0)} ms, ` +
          `worker ${memory.toFixed(0)} MB; one change: policy ${policyMs.toFixed(1)} ms, TCP edge deleted ` +
          `${deleteMs.toFixed(1)} ms, added ${addMs.toFixed(1)} ms; 500 deleted at once ${manyMs.toFixed(0)} ms`,
      )
    }
  }
  if (what !== 'cold') {
    await startOurs(100_000, hash)
    const other = await startOthers()
    const sent = [
      'Host: app.example.com',
      'User-Agent: bench/1.0',
      'Accept: */*',
      'Accept-Encoding: gzip',
      'X-Debug: 1',
    ]
    const ourPid = Number(await workerPid())
    const barePid = other.pid ?? 0
    const bare = (path: string) => ({ pid: barePid, url: `https://localhost:${ports.bareHttps}${path}`, headers: sent })
    const ours = (path: string) => ({ pid: ourPid, url: `https://localhost:${ports.https}${path}`, headers: sent })
    if (what !== 'tcp') {
      await compare('requests, no module', 0.9, bare('/some/path'), ours('/some/path'))
      await compare('requests, 5 header operations', 0.8, bare('/headers'), ours('/headers'))
      await compare('requests, a policy', 0.8, bare('/policy'), ours('/policy'))
    }
    if (what !== 'requests') {
      const close = { headers: ['Connection: close'] }
      const at = (pid: number, port: number) => ({ pid, url: `http://127.0.0.1:${port}/`, ...close })
      await compare('TCP connections, a policy', 0.9, at(barePid, ports.bareTcp), at(ourPid, ports.tcp))
    }
  }
} finally {
  await running?.stop()
  await rm(folder, { recursive: true, force: true })
}
process.exit(0)
