import assert from 'node:assert/strict'
import { mkdir, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeCertificate } from '../../dev/edge.ts'
import { seededRandom } from '../deciders/cases.ts'
import type { Scope } from '../harness/control_plane.ts'
import { type EdgeProcess, type Installation, startInstallation } from '../harness/edge.ts'
import { poll } from '../harness/poll.ts'
import { type Line, receiveAccessLog } from './access_log.ts'
import { changeTenant, createTenant, type Random, type Tenant } from './accounts.ts'
import { type Answer, isLetIn, makeConnection, makeRequests } from './clients.ts'
import { createTally, type Tally } from './counts.ts'
import { describe, differencesOf, differencesOfConnection, type SeenRequest } from './difference.ts'
import { makeTcpVisit, makeVisit, type NumberedRequest, type TcpVisit } from './requests.ts'
import { canonicalSource, type Expected, expectHandshake, expectHttp, expectTcp } from './specification.ts'
import { startUpstreams, type Upstreams } from './upstreams.ts'

type Size = { seed: number; accounts: number; requests: number; rounds: number }
export type Outcome = { requests: number; connections: number; differences: string[]; outcomes: Record<string, number> }
type Run = Size & {
  installation: Installation
  edge: EdgeProcess
  upstreams: Upstreams
  lines: Line[]
  tally: Tally
  tenants: Tenant[]
  differences: string[]
}
const requestsPerVisit = 8

/**
 * Random accounts and changes through the API, random requests through a real node, and what the specification expects of
 * each beside what client, upstream and access log saw.
 */
export async function compareWithSpecification(scope: Scope, size: Size, print = (_: string) => {}): Promise<Outcome> {
  const [installation, upstreams, log] = await Promise.all([
    startInstallation(scope),
    startUpstreams(scope),
    receiveAccessLog(scope),
  ])
  const edge = await startNode(installation, size.accounts, log.url)
  const run: Run = {
    ...{ ...size, installation, edge, upstreams, lines: log.lines },
    ...{ tally: createTally(), tenants: [], differences: [] },
  }
  print(`seed ${size.seed}: creating ${size.accounts} accounts`)
  await createTenants(run)
  for (let round = 0; round < size.rounds; round++) {
    if (round > 0) await changeTenants(run, round)
    await untilApplied(run, round)
    await sendRequests(run, round)
    print(`round ${round + 1} of ${size.rounds}: ${run.tally.requests} requests, ${run.differences.length} differences`)
  }
  run.differences.push(...(await run.tally.differences(edge, run.tenants)))
  const { requests, connections, outcomes } = run.tally
  return { requests, connections, outcomes, differences: run.differences }
}

const isWildcard = (number: number) => number % 10 === 3

async function startNode(installation: Installation, accounts: number, accessLog: string): Promise<EdgeProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-edge-'))
  await mkdir(join(folder, 'certificates'))
  for (let number = 0; number < accounts; number++)
    if (isWildcard(number)) {
      const names = [`*.w${number}.example`, `*.er.w${number}.example`] as const
      makeCertificate(join(folder, `certificates/w${number}.pem`), ...names)
    }
  return installation.startEdge({
    folder,
    env: {
      GATEHOUSE_EDGE_PROXY_PROTOCOL_FROM: '127.0.0.1,::1',
      GATEHOUSE_EDGE_ACCESS_LOG: accessLog,
      GATEHOUSE_EDGE_METRICS_ROUTES: '100000',
      GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_SOURCE: '100%',
    },
  })
}

const randomOf = ({ seed }: Size, tenant: number, round: number) =>
  seededRandom(seed * 1_000_003 + tenant * 101 + round)

async function inParallel<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const waiting = [...items]
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await work(next)
  }
  await Promise.all(Array.from({ length: 16 }, worker))
}

async function createTenants(run: Run): Promise<void> {
  const { installation, upstreams, tenants, tcpPorts } = { ...run, tcpPorts: run.installation.tcpPorts }
  const started = Date.now()
  let lastExpiry = started
  const expiring = () => {
    lastExpiry = Math.max(started + 5_000, Date.now() + 2_000)
    return new Date(lastExpiry).toISOString()
  }
  await inParallel([...Array(run.accounts).keys()], async (number) => {
    const world = { random: randomOf(run, number, 0), upstreams, expiring }
    const port = tcpPorts.first + number
    tenants[number] = await createTenant(world, await installation.newAccount(), number, {
      hasGroups: run.accounts < 100 || number % 10 === 0,
      hasWildcard: isWildcard(number),
      ...(port <= tcpPorts.last && { tcpPort: port }),
    })
  })
  // A node ends a rule within about a second.
  await poll(async () => Date.now() > lastExpiry + 1_200)
}

async function changeTenants(run: Run, round: number): Promise<void> {
  const expiring = () => '2040-01-01T00:00:00Z'
  await inParallel(run.tenants, async (tenant) => {
    const random = randomOf(run, tenant.number, 1_000 + round)
    for (let changes = 2 + random(3); changes > 0; changes--)
      await changeTenant({ random, upstreams: run.upstreams, expiring }, tenant)
  })
}

/** A node applies changes in their order: when it has this one, it has all before it. */
async function untilApplied({ installation: { admin } }: Run, round: number): Promise<void> {
  const hostports = [`marker${round}.example:443`]
  const { headers, text } = await admin('POST', '/edges/https?wait=applied', { hostports })
  assert.equal(headers.get('service-applied'), '1/1', text)
}

/** Those before it are refused for their certificates. */
async function visitThatGetsIn({ seed, edge, tally, tenants, differences }: Run, tenant: Tenant, random: Random) {
  const models = tenants.map(({ model }) => model)
  for (;;) {
    const visit = makeVisit(random, tenant, tenants, requestsPerVisit)
    const refusal = expectHandshake(models, visit)
    if (!refusal) return visit
    tally.countHandshake(canonicalSource(visit.sourceAsSent), refusal)
    if (await isLetIn(visit, edge.httpsPort))
      differences.push(`GATEHOUSE_TEST_SEED=${seed}: ${visit.client} was let in at ${visit.serverName}`)
  }
}

async function sendRequests(run: Run, round: number): Promise<void> {
  const { tenants, edge, tally } = run
  const models = tenants.map(({ model }) => model)
  const each = Math.ceil(run.requests / run.rounds / tenants.length / requestsPerVisit)
  const sent: { request: NumberedRequest; expected: Expected; answer: Answer }[] = []
  const dialed: { visit: TcpVisit; expected: ReturnType<typeof expectTcp>; answer: string }[] = []
  await inParallel(tenants, async (tenant) => {
    const random = randomOf(run, tenant.number, 2_000 + round)
    for (let visits = 0; visits < each; visits++) {
      const visit = await visitThatGetsIn(run, tenant, random)
      const answers = await makeRequests(visit, edge.httpsPort)
      for (const [index, request] of visit.requests.entries()) {
        const expected = expectHttp(models, request, Date.now())
        sent.push({ request, expected, answer: answers[index] as Answer })
      }
      if (!tenant.tcpPort || visits % 3) continue
      const connection = makeTcpVisit(random, tenant.tcpPort)
      const expected = expectTcp(models, connection, Date.now())
      dialed.push({ visit: connection, expected, answer: await makeConnection(connection) })
    }
  })
  const wanted =
    tally.requests +
    sent.length +
    tally.handshakes +
    tally.connections +
    dialed.filter(({ expected }) => expected).length
  await poll(
    async () => run.lines.length + tally.linesRead,
    (lines) => lines >= wanted,
    { withinSeconds: 5 },
  ).catch(() => {})
  const linesById = tally.read(run.lines.splice(0))
  for (const { request, expected, answer } of sent) {
    const id = answer.headers.find(([name]) => name === 'x-request-id')?.[1] ?? ''
    const seen: SeenRequest = {
      answer,
      line: linesById.get(id),
      upstream: run.upstreams.seen.get(request.number) ?? [],
    }
    run.upstreams.seen.delete(request.number)
    tally.count(expected)
    const faults = differencesOf(request, expected, seen)
    if (faults.length) run.differences.push(describe(run, models, request, expected, seen, faults))
  }
  for (const { visit, expected, answer } of dialed) {
    const seen = run.upstreams.seenConnections.get(visit.number) ?? []
    tally.countConnection(visit, expected)
    const faults = differencesOfConnection(visit, expected, answer, seen)
    if (faults.length) run.differences.push(`${JSON.stringify(visit)}\n  ${faults.join('\n  ')}`)
  }
  run.differences.push(...tally.connectionDifferences(), ...tally.handshakeDifferences())
}
