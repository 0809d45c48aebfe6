import assert from 'node:assert/strict'
import { request } from 'node:https'
import { test } from 'node:test'
import { seededRandom } from '../deciders/cases.ts'
import { startInstallation } from '../harness/edge.ts'
import { make } from '../harness/fixtures.ts'
import { policyWith, putRules, restrict } from '../harness/ip.ts'
import { dial, startTcpUpstream, wholeFile } from './live_harness.ts'

const scope = wholeFile()
const { admin, startEdge } = await startInstallation(scope)
const node = await startEdge()
const upstream = await startTcpUpstream(scope)

/** Whether a request from one of this machine's addresses is let through; the upstream speaks no HTTP, which is not asked here. */
const passes = (localAddress: string, path: string): Promise<boolean> =>
  new Promise((resolve, reject) => {
    const where = { host: '127.0.0.1', port: node.httpsPort, localAddress, rejectUnauthorized: false }
    const named = { servername: 'app.example', headers: { host: 'app.example' } }
    request({ ...where, ...named, path, agent: false }, (response) => {
      response.resume()
      resolve(response.statusCode !== 403)
    })
      .on('error', reject)
      .end()
  })

test('POST /ip_checks with an edge or route says what a real edge node then does', async () => {
  const random = seededRandom(Math.floor(Date.now() / 86_400_000))
  const ips = ['127.0.0.1', '127.0.0.2', '127.0.0.9', '127.0.1.1', '127.1.0.1', '127.1.2.3']
  const ranges = ['127.0.0.0/8', '127.0.0.0/24', '127.0.0.0/30', '127.0.1.1/32', '127.1.0.0/16', '127.1.2.3/32']
  const rules = () => ranges.filter(() => random(2)).map((range) => `${random(3) ? 'allow' : 'deny'} ${range}`)
  const policies = [await policyWith(admin), await policyWith(admin), await policyWith(admin)] as const
  const [own, beside, accounts] = policies

  const backend = { backend_id: (await make(admin, '/backends/static', { address: `127.0.0.1:${upstream.port}` })).id }
  const ip_restriction = { ip_policy_ids: [own, beside] }
  const tcp = await make(admin, '/edges/tcp', {
    hostports: [`tcp.example:${node.tcpPorts.first}`],
    backend,
    ip_restriction,
  })
  const https = await make(admin, '/edges/https', { hostports: ['app.example:443'] })
  const routeOf = (match: string, modules: object) =>
    make(admin, `${https.uri}/routes`, { match_type: 'path_prefix', match, backend, ...modules })
  const guarded = await routeOf('/guarded', { ip_restriction })
  const open = await routeOf('/open', {})
  const disabled = await routeOf('/disabled', { ip_restriction: { ...ip_restriction, enabled: false } })
  await restrict(admin, { type: 'endpoints', ip_policy_ids: [await policyWith(admin, 'deny 127.0.0.0/8')] })
  const trial = await restrict(admin, { type: 'endpoints', ip_policy_ids: [accounts] })

  const targets: [body: object, passes: (ip: string) => Promise<boolean>][] = [
    [{ edge_id: tcp.id }, async (ip) => (await dial(node.tcpPorts.first, ip)) !== undefined],
    [{ route_id: guarded.id }, (ip) => passes(ip, '/guarded')],
    [{ edge_id: https.id, route_id: open.id }, (ip) => passes(ip, '/open/x')],
    [{ route_id: disabled.id }, (ip) => passes(ip, '/disabled')],
  ]
  const seen = { true: 0, false: 0 }
  for (let round = 0; round < 6; round++) {
    for (const policy of policies) await putRules(admin, policy, rules())
    const change = await admin('PATCH', `${trial.uri}?wait=applied`, {
      enforced: round % 3 > 0,
      description: `${round}`,
    })
    assert.equal(change.headers.get('service-applied'), '1/1')
    for (const [body, passesAt] of targets) {
      for (const ip of ips) {
        const { allowed, reason } = (await admin('POST', '/ip_checks', { ip, ...body })).body
        assert.equal(await passesAt(ip), allowed, `round ${round}, ${JSON.stringify(body)} from ${ip}: ${reason}`)
        seen[`${allowed as boolean}`]++
      }
    }
  }
  assert.ok(seen.true > 20 && seen.false > 20, JSON.stringify(seen))
})
