// `npm run dev`: a complete installation on this machine. Everything that it starts ends with it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { appRole, asAppRole } from './app_role.ts'
import { ensureDashboard } from './dashboard.ts'
import { startDemo } from './demo/start.ts'
import { ensureDocs } from './docs_site/build.ts'
import { type DevEdge, devNode, startDevEdge } from './edge.ts'
import { missingEngines, putEnginesOnPath } from './engines.ts'
import { startJoiningNats } from './joining.ts'
import { freePort, freePortsFrom } from './ports.ts'
import { startPostgres } from './postgres.ts'
import { endWithUs } from './run_on_exit.ts'
import { newSuppliedDatabase, suppliedUrl } from './supplied_postgres.ts'

// The parent may be killed without notice; a new parent process is the only sign. package.json says `exec`, because some
// shells would otherwise stay between npm and this process, and outlive it.
const parent = process.ppid
const { values: options } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    edge: { type: 'boolean', default: false },
    demo: { type: 'boolean', default: false },
    port: { type: 'string' },
    accounts: { type: 'string', default: '1' },
  },
})
if (!/^[1-9]\d?$/.test(options.accounts)) {
  console.error('npm run dev: --accounts must be a number from 1 to 99.')
  process.exit(2)
}
putEnginesOnPath()
const missing = options.edge || options.demo ? missingEngines() : undefined
if (missing && options.edge) {
  console.error(`npm run dev: ${missing}`)
  process.exit(1)
}
// Without them, a demonstration has no traffic, but everything else.
const hasEdge = options.edge || (options.demo && !missing)
const command = new URL('../src/main.ts', import.meta.url).pathname

// Built only the first time, in parallel with the start of PostgreSQL.
const [postgres] = await Promise.all([
  suppliedUrl ? newSuppliedDatabase(suppliedUrl) : startPostgres(),
  ensureDashboard(),
  ensureDocs(),
])
const port = options.port ?? String(await freePort())
const nats = hasEdge ? await startJoiningNats() : undefined
// A short range, so that two installations can run side by side.
const tcpPortCount = 20
const firstTcpPort = nats ? await freePortsFrom(20_001, tcpPortCount) : 0
const tcpPorts = { first: firstTcpPort, last: firstTcpPort + tcpPortCount - 1 }
const environment = {
  ...process.env,
  ...nats?.controlPlane,
  GATEHOUSE_DATABASE_URL: postgres.url,
  GATEHOUSE_DATABASE_APP_ROLE: appRole,
  GATEHOUSE_LISTEN: `127.0.0.1:${port}`,
  GATEHOUSE_PUBLIC_URL: `http://127.0.0.1:${port}`,
  GATEHOUSE_DOMAIN_OWNERSHIP: 'trusted',
  // The node learns it when it joins.
  ...(nats && { GATEHOUSE_TCP_PORTS: `${tcpPorts.first}-${tcpPorts.last}` }),
}

async function run(...args: string[]): Promise<string> {
  const child = spawn(process.execPath, [command, ...args], { env: environment, stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`gatehouse ${args[0]} ended with ${code}`)
  return output
}

await run('migrate')
const joinToken = await nats?.invite(postgres.url, devNode)
const { account_id, token } = JSON.parse(
  await run('bootstrap', '--account', options.demo ? 'Outdoor Outfitters' : 'dev'),
)
const accounts = [{ account_id, token }]
while (accounts.length < Number(options.accounts)) {
  const another = JSON.parse(await run('bootstrap', '--account', `dev-${accounts.length + 1}`))
  accounts.push({ account_id: another.account_id, token: another.token })
}
// The awaited line has the level info. At a quieter level, only the requested lines are shown.
const { GATEHOUSE_LOG_LEVEL: wantedLevel = 'info' } = process.env
const quieterLevels = { warn: ['warn', 'error', 'fatal'], error: ['error', 'fatal'], fatal: ['fatal'], silent: [] }
const shownLevels: readonly string[] | undefined = Reflect.get(quieterLevels, wantedLevel)
const isShown = (line: string) => !shownLevels || shownLevels.includes(JSON.parse(line).level)
const server = spawn(process.execPath, [command, 'serve'], {
  env: {
    ...environment,
    GATEHOUSE_DATABASE_URL: asAppRole(postgres.url),
    GATEHOUSE_LOG_LEVEL: shownLevels ? 'info' : wantedLevel,
  },
  stdio: ['ignore', 'pipe', 'inherit'],
})
endWithUs(server)

let ending = false
let edge: DevEdge | undefined
let endDemo: (() => void) | undefined
async function end(code: number): Promise<void> {
  if (ending) return
  ending = true
  endDemo?.()
  await edge?.stop()
  if (server.exitCode === null && server.signalCode === null) {
    server.kill('SIGTERM')
    await once(server, 'exit')
  }
  await nats?.stop()
  await postgres.stop()
  process.exit(code)
}
process.on('SIGINT', () => end(0))
process.on('SIGTERM', () => end(0))
process.on('SIGHUP', () => end(0))
server.on('exit', () => end(1))
setInterval(() => process.ppid !== parent && end(0), 500).unref()

const lines = createInterface({ input: server.stdout })
const isListening = await new Promise<boolean>((resolve) => {
  lines.on('line', (line) => JSON.parse(line).msg === 'listening' && resolve(true))
  lines.once('close', () => resolve(false))
})
// The service has printed the reason to standard error, for example a port in use. The program on that port must not get
// the token.
if (!isListening) await new Promise(() => {})
const base_url = environment.GATEHOUSE_PUBLIC_URL
if (joinToken)
  edge = await startDevEdge({
    ...{ baseUrl: base_url, token, joinToken, lastTcpPort: tcpPorts.last },
    withExamples: !options.demo,
  })
if (options.demo) endDemo = await startDemo({ baseUrl: base_url, token, edge })
if (options.json) {
  const ports = edge && {
    https_port: edge.httpsPort,
    tcp_ports: [tcpPorts.first, tcpPorts.last],
    upstream_port: edge.upstreamPort,
  }
  console.log(JSON.stringify({ base_url, token, account_id, accounts, ...ports }))
} else {
  console.log(`
Gatehouse serves at ${base_url}, with a database of its own. Ctrl-C ends it and forgets everything.
The dashboard is at ${base_url}/dashboard/: sign in with the token below.

  export GATEHOUSE_URL=${base_url} GATEHOUSE_API_KEY=${token}${edge ? ` TCP_PORT=${edge.tcpPort} HTTPS_PORT=${edge.httpsPort}` : ''}
  curl -H "Authorization: Bearer $GATEHOUSE_API_KEY" -H "Service-Version: 2" $GATEHOUSE_URL/api_keys
`)
  for (const other of accounts.slice(1)) console.log(`Another account, ${other.account_id}: ${other.token}`)
  if (edge && !options.demo) console.log(edgeHelp(edge))
  if (options.demo)
    console.log(
      missing ? `Without traffic: ${missing}` : 'Visitors of the shop are on their way. Look at Overview and Traffic.',
    )
}
// Ctrl-C also ends PostgreSQL, about which the service then complains.
lines.on('line', (line) => options.json || ending || !isShown(line) || console.log(line))

function edgeHelp({ httpsPort, tcpPort: port }: DevEdge): string {
  const https = `--connect-to app.example:443:127.0.0.1:${httpsPort} --insecure https://app.example/`
  return `An edge node with HAProxy is up, with example edges. Allowed, refused, and a rewritten header:

  sleep 1 | curl --interface 127.0.0.2 telnet://127.0.0.1:${port}
  sleep 1 | curl --interface 127.0.0.9 telnet://127.0.0.1:${port}
  curl --interface 127.0.0.2 --cookie secret=1 ${https}
  curl --interface 127.0.0.9 ${https}
`
}
