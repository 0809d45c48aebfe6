// What access tests say of edges and routes, beside what a real HAProxy does with the same requests.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { after, test } from 'node:test'
import { seededRandom } from '../deciders/cases.ts'
import { startInstallation } from '../harness/edge.ts'
import { freshHost, make } from '../harness/fixtures.ts'
import { policyWith, restrict } from '../harness/ip.ts'
import { sized } from '../harness/thorough.ts'
import { pick, type Random, sources } from '../second_opinion/accounts.ts'
import { makeConnection, makeRequests } from '../second_opinion/clients.ts'

const installation = await startInstallation({ after })
const edge = await installation.startEdge({ env: { GATEHOUSE_EDGE_PROXY_PROTOCOL_FROM: '127.0.0.1' } })
const as = await installation.newAccount()
const upstream = createServer((socket) => socket.on('error', () => {}).end('ok')).listen(0, '127.0.0.1')
await once(upstream, 'listening')
after(() => upstream.close())

const matches = [
  '/',
  '/admin',
  '/Admin',
  '/%61dmin',
  '/admin/open',
  '/ADMIN/Open',
  '/api',
  '/api/',
  '/api/v1',
  '/a%C3%A9',
]
const paths = [
  ...['/', '/admin', '/Admin', '/admin/', '/ADMIN/open', '/admin/open', '/admin/open/x', '/admin/opener', '/api'],
  ...['/api/', '/API/v1', '/api/v1/x', '/apis', '/other'],
]
const ranges = [
  '10.0.0.0/8',
  '10.1.0.0/16',
  '10.1.2.0/24',
  '10.1.2.3',
  '192.0.2.0/24',
  '::/0',
  '2001:db8:1::/48',
  '0.0.0.0/0',
]
const rulesOf = (random: Random) =>
  [...new Set([pick(random, ranges), pick(random, ranges), pick(random, ranges)])].map(
    (range) => `${pick(random, ['allow', 'allow', 'deny'])} ${range}`,
  )

type Route = { id: string; uri: string; host: string }
// biome-ignore lint/suspicious/noExplicitAny: resources as the API shows them; every answer is checked against openapi.json.
type Made = any

async function createWorld(random: Random) {
  const policies = await Promise.all(Array.from({ length: 4 }, () => policyWith(as, ...rulesOf(random))))
  const response = await make(as, '/backends/http_response', { status_code: 200, body: 'ok' })
  const backend = await make(as, '/backends/static', { address: `127.0.0.1:${(upstream.address() as Made).port}` })
  const module = () =>
    pick(random, [
      { ip_restriction: null },
      { ip_restriction: { ip_policy_ids: [pick(random, policies)], enabled: random(4) > 0 } },
      { ip_restriction: { ip_policy_ids: [policies[0], policies[1 + random(3)]] } },
    ])
  const routeFields = () => ({ ...module(), path_variants: pick(random, ['restrict', 'restrict', 'ignore']) })
  const routes: Route[] = []
  for (let edges = 0; edges < 5; edges++) {
    const host = freshHost()
    const { uri } = await make(as, '/edges/https', { hostports: [`${host}:443`] })
    for (const match of matches.filter(() => random(2)))
      for (const match_type of ['path_prefix', 'exact_path'].filter(() => random(3))) {
        const fields = { match, match_type, ...routeFields(), backend: { backend_id: response.id } }
        routes.push({ ...(await make(as, `${uri}/routes`, fields)), host })
      }
  }
  const tcp: Made[] = []
  for (let index = 0; index < 4; index++) {
    const hostports = [`tcp${index}.example:${edge.tcpPorts.first + index}`]
    tcp.push(await make(as, '/edges/tcp', { hostports, ...module(), backend: { backend_id: backend.id } }))
  }
  const restrictions = [
    await restrict(as, { type: 'endpoints', enforced: false, ip_policy_ids: [policies[2]] }),
    await restrict(as, { type: 'endpoints', enforced: false, ip_policy_ids: [policies[3], policies[0]] }),
  ]
  const ignoring = '?ignore_access_tests=true'
  const change = async () => {
    for (const route of routes.filter(() => random(3) === 0)) await as('PATCH', route.uri + ignoring, routeFields())
    for (const each of tcp.filter(() => random(2))) await as('PATCH', each.uri + ignoring, module())
    for (const { uri } of restrictions) await as('PATCH', uri + ignoring, { enforced: random(3) === 0 })
    const rules = rulesOf(random).map((line) => ({ action: line.split(' ')[0], cidr: line.split(' ')[1] }))
    const changed = await as('PUT', `/ip_policies/${policies[0]}/rules${ignoring}`, { rules })
    assert.equal(changed.status, 200, changed.text)
  }
  return { routes, tcp, change }
}

type World = Awaited<ReturnType<typeof createWorld>>
type Tested = { id: string; request: () => Promise<'allowed' | 'refused' | 'unknown'> }

async function addTest(random: Random, { routes, tcp }: World): Promise<Tested> {
  const address = pick(random, sources)
  const visit = { way: 'proxy' as const, sourceAsSent: address, client: 'none' as const }
  const create = async (target: object) =>
    (await make(as, '/access_tests?ignore_access_tests=true', { address, target, expect: 'allowed' })).id
  if (random(6) === 0) {
    const index = random(tcp.length)
    const port = edge.tcpPorts.first + index
    return {
      id: await create({ type: 'edge', edge_id: tcp[index].id }),
      request: async () =>
        (await makeConnection({ ...visit, source: address, address: '127.0.0.1', port, number: '1' })) === 'ok'
          ? 'allowed'
          : 'refused',
    }
  }
  const [route, path] = [pick(random, routes), pick(random, paths)]
  return {
    id: await create({ type: 'route', route_id: route.id, path }),
    async request() {
      const sent = {
        protocol: '1.1',
        source: address,
        serverName: route.host,
        host: route.host,
        method: 'GET',
        client: 'none',
      } as const
      const requests = [{ ...sent, target: path, headers: [], number: '1' }]
      const [answer] = await makeRequests(
        { ...visit, client: 'none', serverName: route.host, requests },
        edge.httpsPort,
      )
      const outcome = { 200: 'allowed', 403: 'refused', 404: 'unknown' } as const
      return outcome[answer?.status as 200] ?? assert.fail(`${path}: ${answer?.status} ${answer?.body}`)
    },
  }
}

const each = sized(100, 180)
test(`${2 * each} times, what a test says of an edge or route is what HAProxy does`, async () => {
  const random = seededRandom(Number(process.env.GATEHOUSE_TEST_SEED ?? 4_711))
  const world = await createWorld(random)
  const tests: Tested[] = []
  for (let index = 0; index < each; index++) tests.push(await addTest(random, world))
  const counts: Record<string, number> = { allowed: 0, refused: 0, unknown: 0 }
  for (let round = 0; round < 2; round++) {
    await world.change()
    await make(as, '/backends/static?wait=applied', { address: '127.0.0.1:9' })
    for (const { id, request } of tests) {
      const { outcome, result, reason, ...shown } = (await as('GET', `/access_tests/${id}`)).body
      const done = await request()
      assert.equal(outcome, done, `round ${round}: ${JSON.stringify(shown)}: ${reason}`)
      assert.equal(result, outcome === 'unknown' ? 'unknown' : outcome === 'allowed' ? 'passed' : 'failed')
      counts[done] = (counts[done] ?? 0) + 1
    }
  }
  console.log(JSON.stringify(counts))
  for (const [outcome, count] of Object.entries(counts)) assert.ok(count > each / 50, `${outcome}: ${count}`)
})
