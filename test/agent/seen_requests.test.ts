import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { after, test } from 'node:test'
import { cliFor } from '../cli/harness.ts'
import { startInstallation } from '../harness/edge.ts'
import { freshHost, make } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { openStream } from '../harness/stream.ts'

const installation = await startInstallation({ after })
const { admin } = installation
const edge = await installation.startEdge()
const origin = installation.processes[0]?.origin ?? ''

/** Status and X-Request-Id of what a client at a source address gets. */
async function get(host: string, localAddress: string): Promise<{ status: number | undefined; id: string }> {
  const sent = request({
    host: '127.0.0.1',
    port: edge.httpsPort,
    servername: host,
    localAddress,
    path: '/cart?secret=1',
    headers: { host },
    rejectUnauthorized: false,
    agent: false,
  }).end()
  const response: IncomingMessage = (await once(sent, 'response'))[0]
  response.resume()
  await once(response, 'close')
  return { status: response.statusCode, id: String(response.headers['x-request-id']) }
}

async function guardedHost(...rules: string[]) {
  const host = freshHost()
  const https = await make(admin, '/edges/https', { hostports: [`${host}:443`] })
  const policy = await policyWith(admin, ...rules)
  const { id: backend_id } = await make(admin, '/backends/http_response', { status_code: 200, body: 'hello' })
  const route = await make(admin, `${https.uri}/routes?wait=applied`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id },
    ip_restriction: { ip_policy_ids: [policy] },
  })
  const { body } = await admin('GET', `/ip_policy_rules?ip_policy_id=${policy}`)
  const ruleOf = (cidr: string): string => body.ip_policy_rules.find((rule: { cidr: string }) => rule.cidr === cidr)?.id
  return { host, https, route, policy, ruleOf }
}

test("a refused request's X-Request-Id is resolved within two seconds to the edge, the route, the policy and the rule that decided", async (t) => {
  const { host, https, route, policy, ruleOf } = await guardedHost('allow 127.0.0.2', 'deny 127.0.0.3')
  assert.equal((await get(host, '127.0.0.2')).status, 200)
  const refused = await get(host, '127.0.0.3')
  assert.equal(refused.status, 403)
  const began = performance.now()
  const { body } = await poll(
    () => admin('GET', `/requests/${refused.id}`),
    ({ status }) => status === 200,
  )
  const ms = Math.round(performance.now() - began)
  t.diagnostic(`resolved after ${ms} ms`)
  assert.deepEqual(
    [body.outcome, body.reason, body.node, body.source_ip, body.method, body.host, body.path, body.status_code],
    ['refused', 'policy', 'edge-1', '127.0.0.3', 'GET', host, '/cart', 403],
  )
  const rule = ruleOf('127.0.0.3/32')
  assert.deepEqual(
    [body.edge.id, body.route.id, body.ip_policy.id, body.ip_policy_rule.id],
    [https.id, route.id, policy, rule],
  )
  assert.ok(body.generation > 0)
  const printed = await cliFor(installation, admin).ok(['requests', 'get', refused.id])
  for (const part of [refused.id, route.id, policy, rule]) assert.ok(printed.includes(part), printed)
  const { body: list } = await admin('GET', `/requests?edge_id=${https.id}`)
  assert.deepEqual(
    list.requests.map(({ id }: { id: string }) => id),
    [refused.id],
    'allowed requests are not kept',
  )
})

test('a watcher sees the allowed and refused requests of the edge that match its filters', async () => {
  const { host, https, policy, ruleOf } = await guardedHost('allow 127.0.0.2')
  const headers = { authorization: `Bearer ${admin.token}` }
  const all = await openStream(origin, `/requests/stream?edge_id=${https.id}`, headers)
  const refusedOnly = await openStream(origin, '/requests/stream?outcome=refused&source_ip=127.0.0.3', headers)
  after(async () => [all, refusedOnly].forEach(({ close }) => void close()))
  await poll(async () => (await (await fetch(`${edge.statusUrl}/metrics`)).text()).includes('gatehouse_edge_watches 2'))
  const [allowed, refused] = [await get(host, '127.0.0.2'), await get(host, '127.0.0.3')]
  await poll(() => all.events.length === 2 && refusedOnly.events.length === 1)
  // In any order: HAProxy logs a request after it has answered it.
  const told = all.events.map(({ data }) => [data.outcome, data.id, data.ip_policy.id, data.ip_policy_rule?.id])
  assert.deepEqual(told.sort(), [
    ['allowed', allowed.id, policy, ruleOf('127.0.0.2/32')],
    ['refused', refused.id, policy, undefined],
  ])
  assert.deepEqual(
    refusedOnly.events.map(({ data }) => data.id),
    [refused.id],
  )
})

test('a node that was cut off from NATS delivers what it kept when it is back', async () => {
  const { host } = await guardedHost('allow 127.0.0.2')
  await installation.nats.stop('SIGKILL')
  const refused = await get(host, '127.0.0.3')
  assert.equal(refused.status, 403)
  assert.equal((await admin('GET', `/requests/${refused.id}`)).status, 404)
  await installation.nats.restart()
  await poll(async () => (await admin('GET', `/requests/${refused.id}`)).status === 200)
})
