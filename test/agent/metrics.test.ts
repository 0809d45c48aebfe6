import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:https'
import { after, test } from 'node:test'
import { freePorts } from '../../dev/ports.ts'
import { startInstallation } from '../harness/edge.ts'
import { freshHost, make } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { firstBytes } from './proxy_harness.ts'

const installation = await startInstallation({ after })
const { admin } = installation
const edge = await installation.startEdge()

async function get(host: string, path: string, localAddress: string): Promise<number | undefined> {
  const options = { port: edge.httpsPort, servername: host, localAddress, path, headers: { host } }
  const sent = request({ host: '127.0.0.1', ...options, rejectUnauthorized: false, agent: false }).end()
  const [response] = await once(sent, 'response')
  response.resume()
  await once(response, 'close')
  return response.statusCode
}
async function figures(): Promise<Map<string, number>> {
  const response = await fetch(`${edge.statusUrl}/metrics`)
  assert.equal(response.headers.get('content-encoding'), 'gzip')
  const lines = (await response.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]))
}

test("a node's metrics say exactly what became of the requests to each route and the connections to each TCP edge", async () => {
  const host = freshHost()
  const https = await make(admin, '/edges/https', { hostports: [`${host}:443`] })
  const policy = await policyWith(admin, 'allow 127.0.0.2')
  const { id: answers } = await make(admin, '/backends/http_response', { status_code: 200, body: 'hello' })
  const [unused = 0] = await freePorts(1)
  const { id: dead } = await make(admin, '/backends/static', { address: `127.0.0.1:${unused}` })
  const add = (match: string, backend_id: string) =>
    make(admin, `${https.uri}/routes?wait=applied`, {
      ...{ match_type: 'path_prefix', match, backend: { backend_id } },
      ip_restriction: { ip_policy_ids: [policy] },
    })
  const [route, broken] = [await add('/', answers), await add('/broken', dead)]
  const port = edge.tcpPorts.first
  const tcp = await make(admin, '/edges/tcp?wait=applied', {
    ...{ hostports: [`127.0.0.1:${port}`], backend: { backend_id: dead } },
    ip_restriction: { ip_policy_ids: [policy] },
  })
  const before = await figures()
  for (let n = 0; n < 3; n++) assert.equal(await get(host, '/', '127.0.0.2'), 200)
  for (let n = 0; n < 2; n++) assert.equal(await get(host, '/', '127.0.0.3'), 403)
  assert.equal(await get(host, '/broken', '127.0.0.2'), 503)
  for (const from of ['127.0.0.2', '127.0.0.3', '127.0.0.3']) await firstBytes({ port, from })

  const labels = ({ id }: { id: string }) => `account="${admin.accountId}",edge="${https.id}",route="${id}"`
  const tcpLabels = `account="${admin.accountId}",edge="${tcp.id}"`
  const connections = `gatehouse_edge_tcp_connections_total{${tcpLabels}}`
  const now = await poll(figures, (found) => (found.get(connections) ?? 0) >= 3)
  const of = (name: string) => now.get(`gatehouse_edge_${name}`)
  assert.deepEqual(
    [
      of(`route_requests_total{${labels(route)},status="2xx"}`),
      of(`route_requests_total{${labels(route)},status="4xx"}`),
      of(`route_refused_total{${labels(route)}}`),
      of(`route_seconds_count{${labels(route)}}`),
      of(`route_upstream_errors_total{${labels(route)}}`),
      of(`route_upstream_errors_total{${labels(broken)}}`),
      of(`route_requests_total{${labels(broken)},status="5xx"}`),
    ],
    [3, 2, 2, 5, 0, 1, 1],
  )
  assert.ok((of(`route_bytes_total{${labels(route)},direction="out"}`) ?? 0) > 500)
  assert.deepEqual([of(`tcp_refused_total{${tcpLabels}}`), of(`tcp_upstream_errors_total{${tcpLabels}}`)], [2, 1])
  assert.deepEqual(
    [
      of(`account_requests_total{account="${admin.accountId}",status="2xx"}`),
      of(`account_connections_total{account="${admin.accountId}"}`),
      of(`account_refused_total{account="${admin.accountId}"}`),
      of('requests_without_route_metrics_total'),
      of('rule_hits_lost_total'),
    ],
    [3, 3, 4, 0, 0],
  )
  // So does what the control plane shows of it.
  const shown = async (query: string) => (await admin('GET', `/traffic_statistics?${query}`)).body
  const { groups } = await poll(
    () => shown('by=route'),
    (body) =>
      body.groups.reduce((sum: number, { sums }: { sums: { requests: number } }) => sum + sums.requests, 0) === 9,
  )
  const sumsOf = (id: string) =>
    groups.find(({ edge_id, route_id }: Record<string, string>) => (route_id ?? edge_id) === id).sums
  assert.deepEqual(
    [route.id, broken.id, tcp.id].map(sumsOf).map(({ requests, refused, errors: { unreachable } }) => ({
      ...{ requests, refused, unreachable },
    })),
    [
      { requests: 5, refused: 2, unreachable: 0 },
      { requests: 1, refused: 0, unreachable: 1 },
      { requests: 3, refused: 2, unreachable: 1 },
    ],
  )
  assert.deepEqual([sumsOf(tcp.id).latency_ms, sumsOf(route.id).latency_ms !== null], [null, true])
  assert.equal((await shown(`backend_id=${dead}`)).groups[0].sums.requests, 4)
  assert.deepEqual(
    (await shown('by=node')).groups.map(({ node }: { node: string }) => node),
    ['edge-1'],
  )
  assert.equal((await shown('')).nodes_not_counting, 0)
  // HAProxy's own counters agree, which do not depend on lines.
  const since = (name: string) => (of(name) ?? Number.NaN) - (before.get(`gatehouse_edge_${name}`) ?? 0)
  const ofFrontend = (status: string) => since(`frontend_requests_total{frontend="https",status="${status}"}`)
  assert.deepEqual(['2xx', '4xx', '5xx'].map(ofFrontend), [3, 2, 1])
  assert.equal(since('frontend_connections_total{frontend="tcp"}'), 3)
})

test('the control plane reports how many live nodes are behind', async () => {
  const behind = async () => {
    const text = await (await fetch(`${installation.processes[0]?.origin}/metrics`)).text()
    return Number(/^gatehouse_edge_nodes_behind (\d+)$/m.exec(text)?.[1])
  }
  await poll(behind, (count) => count === 0)
  edge.child.kill('SIGSTOP')
  try {
    await make(admin, '/backends/static', { address: '127.0.0.1:9' })
    await poll(behind, (count) => count === 1)
  } finally {
    edge.child.kill('SIGCONT')
  }
  await poll(behind, (count) => count === 0)
})
