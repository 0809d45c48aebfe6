// What the edge costs beside two other HAProxy instances in front of the same upstream: `node bench/edge_proxy.ts
// [requests|tcp|cold]`. The bare one only forwards; the one by hand has what somebody would write who has this one edge
// and no other, with the same modules, in the configuration. Needs haproxy, wrk and openssl. Slices alternate between
// the three, so that a busy moment of the machine hits all of them.
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { putEnginesOnPath } from '../dev/engines.ts'
import { createProxy, type EdgeProxy } from '../src/agent/haproxy/apply.ts'
import { type Entry, entriesOf, readyEntries } from '../src/agent/haproxy/entries.ts'
import { ask } from '../src/agent/haproxy/runtime.ts'
import { loadedCertificateFolder, type ProxySettings, policyFolder } from '../src/agent/haproxy/settings.ts'
import { type IdPrefix, newId } from '../src/kernel/ids.ts'
import { policyFile } from '../test/agent/proxy_harness.ts'

putEnginesOnPath()

const what = process.argv[2] ?? 'all'
const slices = Number(process.env.SLICES ?? 9)
const seconds = Number(process.env.SECONDS_PER_SLICE ?? 2)
const ports = { upstream: 18_100, bareHttps: 18_101, bareTcp: 18_102, https: 18_103, tcp: 18_200 }
const byHandPorts = { https: 18_105, tcp: 18_106 }
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

const headers = {
  add: [
    ['X-User', 'someone'],
    ['X-Tenant', 'acme'],
    ['Authorization', 'Basic dXNlcjpwYXNz'],
  ],
  remove: ['X-Debug', 'X-Internal'],
}

/** The fast upstream, and the two proxies beside ours: the same TLS, keep-alive, buffers, time-outs and thread count. */
async function startOthers(): Promise<{ bare: number; byHand: number }> {
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
  timeout http-request 10s
  timeout http-keep-alive 60s
  option clitcpka
  option srvtcpka
`
  const frontends = ({ https, tcp }: { https: number; tcp: number }, httpRules: string, tcpRules: string) => `
frontend https
  mode http
  bind 127.0.0.1:${https} ssl crt ${loadedCertificateFolder(settings)} strict-sni alpn h2,http/1.1
${httpRules}  default_backend plain
backend plain
  mode http
  server s 127.0.0.1:${ports.upstream}
frontend tcp
  mode tcp
  bind 127.0.0.1:${tcp}
${tcpRules}  default_backend tcp
backend tcp
  mode tcp
  server s 127.0.0.1:${ports.upstream}
`
  const httpRules = `  http-request set-header X-Forwarded-For %[src]
  http-request set-header X-Forwarded-Proto https
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  acl headers path_beg /headers
${headers.remove.map((name) => `  http-request del-header ${name} if headers\n`).join('')}${headers.add.map(([name, value]) => `  http-request set-header ${name} '${value}' if headers\n`).join('')}  http-request deny if { path_beg /policy } !{ src -f ${rangeFile} }
`
  const configs = {
    upstream: `frontend upstream
  mode http
  bind 127.0.0.1:${ports.upstream}
  http-request return status 200 content-type text/plain string hello
`,
    bare: frontends({ https: ports.bareHttps, tcp: ports.bareTcp }, '', ''),
    byHand: frontends(byHandPorts, httpRules, `  tcp-request connection reject if !{ src -f ${rangeFile} }\n`),
  }
  const pids: Record<string, number> = {}
  for (const [name, text] of Object.entries(configs)) {
    const file = join(folder, `${name}.cfg`)
    await writeFile(file, config + text)
    const started = spawn('haproxy', ['-db', '-q', '-f', file], { stdio: 'inherit' })
    process.on('exit', () => started.kill('SIGKILL'))
    pids[name] = started.pid ?? 0
  }
  for (const port of [ports.upstream, ports.bareHttps, byHandPorts.https]) {
    const answers = () =>
      new Promise((resolve) => connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false)))
    while (!(await answers())) await setTimeout(50)
  }
  return { bare: pids.bare ?? 0, byHand: pids.byHand ?? 0 }
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
function wrk({ url, headers: sent }: Load): number {
  const script = url.startsWith('https') ? ['-s', varyingRequests] : []
  const args = ['-t1', '-c32', `-d${seconds}s`, ...script, ...sent.flatMap((line) => ['-H', line]), url]
  const output = execFileSync('wrk', args, { encoding: 'utf8' })
  if (/Non-2xx|Socket errors: connect [1-9]/.test(output)) throw new Error(output)
  return Number(/(\d+) requests in/.exec(output)?.[1])
}

/** Processor time that a process with one thread has used, in microseconds. */
async function processorTime(pid: number): Promise<number> {
  return Number((await readFile(`/proc/${pid}/schedstat`, 'utf8')).split(' ')[0]) / 1_000
}

type Slice = { rate: number; cost: number }
/** How many there were, and what each cost the proxy: the second depends less on what else the machine does. */
async function slice(load: Load): Promise<Slice> {
  const before = await processorTime(load.pid)
  const rate = wrk(load)
  return { rate, cost: ((await processorTime(load.pid)) - before) / rate }
}

const middle = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
/** With the middle half of the values: on a machine with other work the ends say more about that work. */
function spread(values: number[]): string {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (part: number) => (sorted[Math.round(part * (sorted.length - 1))] ?? 0).toFixed(2)
  return `${at(0.5)} (${at(0.25)}–${at(0.75)})`
}

type Proxy = 'bare' | 'byHand' | 'ours'
/** Slice by slice, in both orders. */
async function compare(title: string, goal: number, loads: Record<Proxy, Load>): Promise<void> {
  const order = Object.keys(loads) as Proxy[]
  for (const proxy of order) wrk(loads[proxy])
  const rounds: Record<Proxy, Slice>[] = []
  for (let index = 0; index < slices; index++) {
    const round: Partial<Record<Proxy, Slice>> = {}
    for (const proxy of order) round[proxy] = await slice(loads[proxy])
    order.reverse()
    rounds.push(round as Record<Proxy, Slice>)
  }
  const beside = (other: Proxy) =>
    `by processor time ${spread(rounds.map((each) => each[other].cost / each.ours.cost))}, ` +
    `by rate ${spread(rounds.map((each) => each.ours.rate / each[other].rate))}`
  const costs = order.map((proxy) => `${proxy} ${middle(rounds.map((each) => each[proxy].cost)).toFixed(1)} µs`)
  console.log(
    `${title}, goal ${goal}\n  of bare HAProxy: ${beside('bare')}\n  of HAProxy by hand: ${beside('byHand')}\n` +
      `  processor time of each: ${costs.join(', ')}`,
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
      console.log(
        `${count} routes and TCP edges (${all.length} entries): cold start ${milliseconds.toFixed(0)} ms, ` +
          `worker ${memory.toFixed(0)} MB; one change: policy ${policyMs.toFixed(1)} ms, TCP edge deleted ` +
          `${deleteMs.toFixed(1)} ms, added ${addMs.toFixed(1)} ms; 500 deleted at once ${manyMs.toFixed(0)} ms`,
      )
    }
  }
  if (what !== 'cold') {
    await startOurs(100_000, hash)
    const pids = { ...(await startOthers()), ours: Number(await workerPid()) }
    const ordinary = ['Host: app.example.com', 'User-Agent: bench/1.0', 'Accept: */*', 'Accept-Encoding: gzip']
    const at = (url: (port: number) => string, sent: string[], to: Record<Proxy, number>): Record<Proxy, Load> => ({
      bare: { pid: pids.bare, url: url(to.bare), headers: sent },
      byHand: { pid: pids.byHand, url: url(to.byHand), headers: sent },
      ours: { pid: pids.ours, url: url(to.ours), headers: sent },
    })
    const requests = (path: string, sent = ordinary) =>
      at((port) => `https://localhost:${port}${path}`, sent, {
        bare: ports.bareHttps,
        byHand: byHandPorts.https,
        ours: ports.https,
      })
    if (what !== 'tcp') {
      await compare('requests, no module', 0.9, requests('/some/path'))
      await compare('requests, 5 header operations', 0.8, requests('/headers'))
      await compare(
        'requests, 5 header operations, of which one has something to remove',
        0.8,
        requests('/headers', [...ordinary, 'X-Debug: 1']),
      )
      await compare('requests, a policy', 0.8, requests('/policy'))
    }
    if (what !== 'requests') {
      const destinations = { bare: ports.bareTcp, byHand: byHandPorts.tcp, ours: ports.tcp }
      const loads = at((port) => `http://127.0.0.1:${port}/`, ['Connection: close'], destinations)
      await compare('TCP connections, a policy', 0.9, loads)
    }
  }
} finally {
  await running?.stop()
  await rm(folder, { recursive: true, force: true })
}
process.exit(0)
