// `npm run drill -- rate-limits <requests> <sources>`: 1,000,000 requests of 1,000 addresses through a node with a rate limit:
// never more than the limit in a window, and no one limited by the requests of another. A quarter of the clients send just as
// much as they may, all others far more. Then a quarter as many with a limit by header. At last a tenth
// each without what is to be shown, with no limit and with one limit for all: the drill fails unless it notices.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import type { Scope } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { startInstallation } from '../harness/edge.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { pause } from '../harness/poll.ts'

const requests = Number(process.argv[2] ?? 1_000_000)
const sources = Number(process.argv[3] ?? 1_000)
const limit = 10
const windowMs = 5_000
/** Sent at once on a connection, by those who send too much. */
const greedyBatch = 20
const batchesInFlight = 24
/** HAProxy tells the time once for all that it finds to do. */
const clockMs = 50
const host = 'limited.example'

/** Answers that came together, to requests that were sent together. */
type Answers = { from: number; to: number; passed: number; limited: number }
type Client = { name: string; isQuiet: boolean; connections: Connection[]; answers: Answers[] }
type Connection = { send: (count: number, answers: Answers[]) => Promise<void> }

async function startUpstream(scope: Scope) {
  let served = 0
  const server = createServer({ keepAliveTimeout: 600_000 }, (_, response) => {
    served++
    response.end('ok')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  scope.after(async () => server.closeAllConnections())
  return { port: (server.address() as AddressInfo).port, served: () => served }
}

const addressOf = (number: number): string => `127.7.${number >> 8}.${number & 255}`

/** HTTP/1.1 with several requests under way, because that costs this process least. */
async function open(scope: Scope, httpsPort: number, localAddress: string, value: string): Promise<Connection> {
  const socket: TLSSocket = connect({
    ...{ host: '127.0.0.1', port: httpsPort, localAddress, servername: host },
    ...{ rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] },
  })
  await new Promise<void>((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject))
  scope.after(async () => void socket.destroy())
  const request = `GET / HTTP/1.1\r\nHost: ${host}\r\nX-Client: ${value}\r\n\r\n`
  let onBytes = (_: string) => {}
  let fail = (_: Error) => {}
  socket.setEncoding('latin1').on('data', (text: string) => onBytes(text))
  socket.on('close', () => fail(new Error(`${localAddress}: the connection was closed`)))
  socket.on('error', (error) => fail(error))
  return {
    send: (count, answers) =>
      new Promise((resolve, reject) => {
        const from = Date.now()
        let [left, rest] = [count, '']
        fail = reject
        onBytes = (text) => {
          const all = rest + text
          const statuses = all.match(/HTTP\/1\.1 \d{3}/g) ?? []
          const passed = statuses.filter((status) => status.endsWith('200')).length
          const limited = statuses.filter((status) => status.endsWith('429')).length
          if (passed + limited < statuses.length) return reject(new Error(`${localAddress}: ${statuses}`))
          answers.push({ from, to: Date.now(), passed, limited })
          left -= statuses.length
          const last = all.lastIndexOf('HTTP/1.1 ')
          // A status line that is not whole is read again, one that was counted is not.
          rest = /^HTTP\/1\.1 \d{3}/.test(all.slice(last)) || last < 0 ? all.slice(-11) : all.slice(last)
          if (left === 0) resolve()
        }
        socket.write(request.repeat(count))
      }),
  }
}

/** `perClient`: how many addresses a client has. */
async function clientsOf(scope: Scope, httpsPort: number, perClient: number): Promise<Client[]> {
  const clients: Client[] = []
  for (let number = 0; number < sources / perClient; number++) {
    const name = `client-${number}`
    const addresses = Array.from({ length: perClient }, (_, at) => addressOf(1 + number * perClient + at))
    const connections = await Promise.all(addresses.map((address) => open(scope, httpsPort, address, name)))
    clients.push({ name, isQuiet: number % 4 === 0, connections, answers: [] })
  }
  return clients
}

/** As many as they may in each window, when that is neither new nor nearly over. */
async function sendQuietly({ connections, answers }: Client, isOver: () => boolean): Promise<number> {
  let sent = 0
  for (let last = 0; !isOver(); ) {
    const now = Date.now()
    const [window, at] = [Math.floor(now / windowMs), now % windowMs]
    if (window === last || at < windowMs * 0.1 || at > windowMs * 0.5) {
      await pause(50 + Math.random() * 500)
      continue
    }
    last = window
    const each = limit / connections.length
    await Promise.all(connections.map((connection) => connection.send(each, answers)))
    sent += each * connections.length
  }
  return sent
}

async function sendAll(clients: readonly Client[], count: number): Promise<number> {
  const greedy = clients.filter(({ isQuiet }) => !isQuiet)
  let [sent, next] = [0, 0]
  const isOver = () => sent >= count
  const quiet = clients
    .filter(({ isQuiet }) => isQuiet)
    .map(async (client) => {
      const own = await sendQuietly(client, isOver)
      sent += own
    })
  const isBusy = new Set<Connection>()
  const worker = async () => {
    while (!isOver()) {
      const { connections, answers } = greedy[next++ % greedy.length] as Client
      const free = connections.find((connection) => !isBusy.has(connection))
      if (!free) {
        await pause(1)
        continue
      }
      isBusy.add(free)
      sent += greedyBatch
      await free.send(greedyBatch, answers)
      isBusy.delete(free)
    }
  }
  await Promise.all([...quiet, ...Array.from({ length: batchesInFlight }, worker)])
  return sent
}

type Windows = Map<number, { certain: number; passed: number; possible: number; withNext: number }>

const countsOf = (clients: readonly Client[]): [passed: number, limited: number] => {
  const all = clients.flatMap(({ answers }) => answers)
  return [all.reduce((sum, { passed }) => sum + passed, 0), all.reduce((sum, { limited }) => sum + limited, 0)]
}

/** Which window a request counted in is certain if it began and ended in one. */
function windowsOf(answers: readonly Answers[]): Windows {
  const windows: Windows = new Map()
  for (const { from, to, passed, limited } of answers) {
    const [first, last] = rangeOf(from, to)
    for (let number = first - 1; number <= last; number++) {
      const window = windows.get(number) ?? { certain: 0, passed: 0, possible: 0, withNext: 0 }
      windows.set(number, window)
      if (number >= first) window.possible += passed + limited
      if (number === first && first === last) {
        window.certain += passed + limited
        window.passed += passed
      }
      if (first >= number && last <= number + 1) window.withNext += passed
    }
  }
  return windows
}

const rangeOf = (from: number, to: number): [number, number] => [
  Math.floor((from - clockMs) / windowMs),
  Math.floor((to + clockMs) / windowMs),
]

/** `most`: that passed for one client in a window. */
type Findings = { beyond: string[]; wronged: string[]; judged: number; most: number }

function judge(clients: readonly Client[]): Findings {
  const found: Findings = { beyond: [], wronged: [], judged: 0, most: 0 }
  for (const { name, answers } of clients) {
    const windows = windowsOf(answers)
    for (const [number, { certain, passed, possible, withNext }] of windows) {
      found.most = Math.max(found.most, passed)
      if (passed > limit) found.beyond.push(`${name}: ${passed} in window ${number}`)
      if (withNext > 2 * limit) found.beyond.push(`${name}: ${withNext} in window ${number} and the next`)
      if (certain === 0 || certain !== possible) continue
      found.judged++
      const own = Math.min(certain, limit)
      if (passed < own) found.wronged.push(`${name}: ${passed} instead of ${own} in window ${number}`)
    }
    for (const { from, to, limited } of answers) {
      if (limited === 0) continue
      const [first, last] = rangeOf(from, to)
      const isOwn = [first, last].some((number) => (windows.get(number)?.possible ?? 0) > limit)
      if (!isOwn) found.wronged.push(`${name}: ${limited} limited in window ${first}`)
    }
  }
  return found
}

await drill(async (scope) => {
  const upstream = await startUpstream(scope)
  const installation = await startInstallation(scope)
  const { admin } = installation
  const edge = await installation.startEdge()
  const backend = await make(admin, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  const https = await newHttpsEdge(admin, { hostports: [`${host}:443`] })
  const backendModule = { backend: { backend_id: backend.id } }
  const route = await make(admin, `${https.uri}/routes`, { match_type: 'path_prefix', match: '/', ...backendModule })

  /** Resolves to what was found, and whether the upstream got what clients were told. */
  const phase = async (what: string, key: string | null, count: number, perClient = 1) => {
    const rate_limit = key && { requests: limit, per_seconds: windowMs / 1_000, key }
    const set = await admin('PATCH', `${route.uri}?wait=applied`, { rate_limit })
    if (set.status !== 200) throw new Error(set.text)
    const clients = await clientsOf(scope, edge.httpsPort, perClient)
    const [had, began] = [upstream.served(), performance.now()]
    const sent = await sendAll(clients, count)
    const seconds = (performance.now() - began) / 1_000
    const [passed, limited] = countsOf(clients)
    const [quietPassed, quietLimited] = countsOf(clients.filter(({ isQuiet }) => isQuiet))
    const { beyond, wronged, judged, most } = judge(clients)
    const isWhole = passed === upstream.served() - had && passed + limited === sent
    console.log(
      `${what}: ${sent} requests of ${clients.length} clients in ${seconds.toFixed(0)} s, ${passed} passed and ${limited} were ` +
        `limited, of those who keep to the limit ${quietPassed} and ${quietLimited}; at most ${most} in a window of ${windowMs / 1_000} s with a limit of ${limit}; ${judged} windows of a client ` +
        `could be told apart; ${beyond.length} times too many passed, and ${wronged.length} times too few` +
        `${isWhole ? '' : `; the upstream got ${upstream.served() - had}`}`,
    )
    for (const each of [...beyond.slice(0, 3), ...wronged.slice(0, 3)]) console.log(`  ${each}`)
    return { isRight: isWhole && judged > clients.length / 2 && beyond.length + wronged.length === 0, beyond, wronged }
  }
  const bySource = await phase('by address', 'source', requests)
  const byHeader = await phase('by header, each value from two addresses', 'header:X-Client', requests / 4, 2)
  const off = await phase('control: no limit', null, requests / 10)
  const shared = await phase('control: one limit for all', 'route', requests / 10)
  const isNoticed = off.beyond.length > 0 && shared.wronged.length > 0
  if (!isNoticed) console.log('The controls were not noticed, so the rest shows nothing.')
  return bySource.isRight && byHeader.isRight && isNoticed
})
