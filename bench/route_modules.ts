// What a module costs: `node bench/route_modules.ts [module]`. Each round loads a route with the module and one without it, in
// turn, on the same node with 10,000 routes, and compares the processor time of a request. Needs haproxy, wrk and openssl.
import { execFile, execFileSync, spawn } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { putEnginesOnPath } from '../dev/engines.ts'
import { freePorts } from '../dev/ports.ts'
import { createProxy } from '../src/agent/haproxy/apply.ts'
import { type Entry, entriesOf, readyEntries } from '../src/agent/haproxy/maps/entries.ts'
import { ask } from '../src/agent/haproxy/process/runtime.ts'
import { newId } from '../src/kernel/ids.ts'
import { proxySettings } from './harness/proxy_settings.ts'
import { shown, spreadOf } from './harness/statistics.ts'

putEnginesOnPath()

const headers = {
  add: [
    ['Strict-Transport-Security', 'max-age=31536000'],
    ['X-Frame-Options', 'DENY'],
    ['Cache-Control', 'no-store'],
  ],
  remove: ['X-Powered-By', 'Server'],
}
/** What the record of a route has beside that of one without modules. `control` has nothing: its ratio is the noise. */
const modules: Record<string, object> = {
  control: {},
  request_headers: { headers },
  response_headers: { response_headers: headers },
  user_agent_filter: {
    user_agent_filter: { allow: [], deny: ['curl/', 'scrapy', 'python-requests'], mode: 'enforce' },
  },
  cors: {
    cors: {
      ...{ allowed_origins: ['https://page.example.com'], allowed_methods: ['PUT'], allowed_headers: ['X-Trace'] },
      ...{ exposed_headers: ['X-Total'], max_age_seconds: 600, allow_credentials: true },
    },
  },
  methods: { methods: { allow: ['GET', 'HEAD'], deny: [], mode: 'enforce' } },
  rate_limit: { rate_limit: { requests: 1_000_000, per_seconds: 3_600, key: 'source', mode: 'enforce' } },
  rate_limit_by_header: {
    rate_limit: { requests: 1_000_000, per_seconds: 3_600, key: 'header:User-Agent', mode: 'enforce' },
  },
  redirect: {
    redirect: { to: 'https://new.example.com', status_code: 308, keep_path: true, keep_query: true },
  },
  rewrite: { rewrite: { strip_prefix: '/rewrite', add_prefix: '/v1/app', host: 'inner.example' } },
}

const rounds = Number(process.env.ROUNDS ?? 9)
const seconds = Number(process.env.SECONDS_PER_ROUND ?? 2)
const folder = await mkdtemp(join(tmpdir(), 'gatehouse-bench-'))
const [upstreamPort = 0, httpsPort = 0, tcpPort = 0] = await freePorts(3)
const settings = proxySettings(folder, httpsPort, [tcpPort, tcpPort])

function* entries(): Generator<Entry> {
  const [account, backend, edge] = [newId('ac'), newId('bkdst'), newId('edghts')]
  yield* readyEntries
  yield* entriesOf(`restrictions.${account}`, { sets: [] })
  yield* entriesOf(`backend.${backend}`, {
    address: '127.0.0.1',
    port: upstreamPort,
    tls: false,
    host: 'upstream.test',
  })
  yield* entriesOf(`https.${edge}`, { hostports: ['localhost:443'] })
  const route = { account, backend, edge, policies: null, headers: null, match_type: 'path_prefix' }
  const matches = ['plain', ...Array.from({ length: 10_000 }, (_, index) => `other-${index}`)]
  for (const match of matches) yield* entriesOf(`route.${newId('edghtsrt')}`, { ...route, match: `/${match}` })
  for (const [name, module] of Object.entries(modules))
    yield* entriesOf(`route.${newId('edghtsrt')}`, { ...route, match: `/${name}`, ...module })
}

async function startUpstream(): Promise<() => void> {
  const file = join(folder, 'upstream.cfg')
  await writeFile(
    file,
    `defaults
  mode http
  timeout client 60s
frontend upstream
  bind 127.0.0.1:${upstreamPort}
  http-request return status 200 content-type text/plain string ok hdr X-Powered-By bench hdr Cache-Control public
`,
  )
  const child = spawn('haproxy', ['-db', '-q', '-f', file], { stdio: 'ignore' })
  return () => child.kill()
}

/** Microseconds of processor time per request. */
async function costOf(pid: string, path: string): Promise<number> {
  const used = async () => Number((await readFile(`/proc/${pid}/schedstat`, 'utf8')).split(' ')[0]) / 1_000
  const before = await used()
  // With the port of the bench in its Host, no request would take the fast path.
  const args = [
    '-t1',
    '-c10',
    `-d${seconds}s`,
    '-H',
    'Host: localhost',
    '-H',
    'User-Agent: bench/1.0',
    `https://localhost:${httpsPort}${path}`,
  ]
  const { stdout } = await promisify(execFile)('wrk', args)
  if (/Non-2xx|Socket errors: connect [1-9]/.test(stdout)) throw new Error(stdout)
  return ((await used()) - before) / Number(/(\d+) requests in/.exec(stdout)?.[1])
}

await mkdir(settings.certificateFolder, { recursive: true })
const request =
  'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout - -out -'
await writeFile(
  join(settings.certificateFolder, 'localhost.pem'),
  execFileSync('openssl', request.split(' '), { stdio: ['ignore', 'pipe', 'ignore'] }),
)
const stopUpstream = await startUpstream()
const proxy = createProxy(settings, { onTrouble: (problem) => console.error(problem) })
await proxy.start([...entries()])
try {
  const pid = /^Pid: (\d+)$/m.exec(await ask(settings.runtimeSocket, 'show info'))?.[1] ?? ''
  const chosen = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(modules)
  for (const name of chosen) {
    const ratios: number[] = []
    // The first is not counted: connections to the upstream are made.
    for (let round = 0; round <= rounds; round++) {
      const [without, with_] = [await costOf(pid, '/plain'), await costOf(pid, `/${name}`)]
      if (round > 0) ratios.push(without / with_)
    }
    console.log(`${name}: a request without it takes ${shown(spreadOf(ratios))} of the processor time of one with it`)
  }
} finally {
  await proxy.stop()
  stopUpstream()
  await rm(folder, { recursive: true, force: true })
}
process.exit(0)
