// Rows 1 and 5 of the security review, for every operation: what a second account can do to the first by naming its
// hosts, ports, backends and everything else that a body can name. Nothing.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { TSchema } from 'typebox'
import { type IdPrefix, newId } from '../../src/kernel/ids.ts'
import { routes } from '../../src/resources/routes.ts'
import type { Answer, Client } from '../harness/client.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { freshHost, make, newBackend, newHttpsEdge, newTcpEdge } from '../harness/fixtures.ts'
import { expectations, makers } from './expectations.ts'
import { callOf, tellingPart } from './matrix.ts'
import { type Crossing, contentsOfAccount, gapsIn, type Name, namesIn, withName } from './names.ts'

/** By operation and place. A new place in a body, and one that is gone, fail the first test. */
const crossings: Record<string, Crossing> = {
  'tcp_edges.create hostports[]': 'taken',
  'tcp_edges.update hostports[]': 'taken',
  'https_edges.create hostports[]': 'taken',
  'https_edges.update hostports[]': 'taken',
  // Two accounts may have the same upstream: what a node dials for either is the operator's to decide.
  'static_backends.create address': 'allowed',
  'static_backends.update address': 'allowed',
  'reserved_domains.create certificate_id': 'unknown',
  'reserved_domains.update certificate_id': 'unknown',
  'weighted_backends.create backends{}': 'unknown',
  'weighted_backends.update backends{}': 'unknown',
  'failover_backends.create backends[]': 'unknown',
  'failover_backends.update backends[]': 'unknown',
  'tcp_edges.create backend.backend_id': 'unknown',
  'tcp_edges.update backend.backend_id': 'unknown',
  'tcp_edges.backend.replace backend_id': 'unknown',
  'https_edge_routes.create backend.backend_id': 'unknown',
  'https_edge_routes.update backend.backend_id': 'unknown',
  'https_edge_routes.backend.replace backend_id': 'unknown',
  'tcp_edges.create ip_restriction.ip_policy_ids[]': 'unknown',
  'tcp_edges.update ip_restriction.ip_policy_ids[]': 'unknown',
  'tcp_edges.ip_restriction.replace ip_policy_ids[]': 'unknown',
  'https_edge_routes.create ip_restriction.ip_policy_ids[]': 'unknown',
  'https_edge_routes.update ip_restriction.ip_policy_ids[]': 'unknown',
  'https_edge_routes.ip_restriction.replace ip_policy_ids[]': 'unknown',
  'api_keys.create owner_id': 'unknown',
  'identities.create owner_id': 'unknown',
  'ip_policy_rules.create ip_policy_id': 'unknown',
  'ip_restrictions.create ip_policy_ids[]': 'unknown',
  'ip_restrictions.update ip_policy_ids[]': 'unknown',
  'access_tests.create target.edge_id': 'unknown',
  'access_tests.create target.route_id': 'unknown',
  'access_tests.update target.edge_id': 'unknown',
  'access_tests.update target.route_id': 'unknown',
  'alert_rules.create resource_id': 'unknown',
  'alert_rules.update resource_id': 'unknown',
  'ip_checks.create edge_id': 'unknown',
  'ip_checks.create route_id': 'unknown',
  'ip_policies.remove_rules rule_ids[]': 'ignored',
  'webhook_destinations.replay event_ids[]': 'ignored',
}

const plane = await startControlPlane({ after })
const [victim, attacker] = [await plane.newAccount(), await plane.newAccount()]
let attempts = 0

test('every field that names another resource has an expected answer', () => {
  assert.deepEqual(gapsIn(routes, crossings), [])
  const tcp = routes.find(({ operation }) => operation === 'tcp_edges.create') ?? assert.fail()
  const added = { ...tcp, operation: 'udp_edges.create' }
  assert.deepEqual(gapsIn([added], {}), [
    'udp_edges.create hostports[] has no answer',
    'udp_edges.create backend.backend_id has no answer',
    'udp_edges.create ip_restriction.ip_policy_ids[] has no answer',
  ])
  const backendId = { pattern: '^bkdst_[0-7][0-9a-z]{25}$' }
  const weighted = { properties: { backends: { propertyNames: backendId }, spare: { anyOf: [backendId, {}] } } }
  assert.deepEqual(
    namesIn({ body: weighted as TSchema }).map(({ place }) => place),
    ['backends{}', 'spare'],
  )
})

let nextPort = 20_000
/** What the first account has, and every text by which a second could reach for it. */
async function victimsNames({ place, hostport, prefixes }: Name): Promise<string[]> {
  if (!hostport)
    return Promise.all(prefixes.map((prefix) => (makers[prefix] ?? assert.fail(`no maker for ${prefix}`))(victim)))
  if (place === 'address') return [(await newBackend(victim)).address]
  if (hostport.port === 443) {
    const [domain, name] = [freshHost(), freshHost()]
    await newHttpsEdge(victim, { hostports: [`*.${domain}:443`, `${name}:443`] })
    const under = ['', '*.', 'a.', '*.a.', 'a.b.c.'].map((labels) => labels + domain)
    return [...under, name, name.toUpperCase(), `*.${name}`].map((host) => `${host}:443`)
  }
  const [host, port] = [freshHost(), nextPort++]
  await newTcpEdge(victim, { hostports: [`${host}:${port}`] })
  return [host, host.toUpperCase(), freshHost(), '127.0.0.1', '0.0.0.0', '[::1]', '[::]'].map(
    (each) => `${each}:${port}`,
  )
}

const statuses: Record<Exclude<Crossing, 'allowed' | 'ignored'>, [number, string]> = {
  taken: [409, 'ERR_HOSTPORT_TAKEN'],
  unknown: [400, 'ERR_INVALID_FIELD'],
}

for (const route of routes) {
  const { path = async () => ({}), body = () => ({}) } = expectations[route.operation] ?? {}
  const call = (as: Client, ids: Record<string, string>, sent: object) => callOf(route, as)(ids, sent)

  for (const name of namesIn(route)) {
    const crossing = crossings[`${route.operation} ${name.place}`]
    if (!crossing) continue
    test(`${route.operation}: naming another account's ${name.place} is ${crossing}, and changes nothing for it`, async () => {
      for (const value of await victimsNames(name)) {
        const [ids, rest] = [await path(attacker), await body(attacker)]
        const before = await contentsOfAccount(plane.db, victim)
        const answer: Answer = await call(attacker, ids, withName(rest, name.place, value))
        attempts++
        if (crossing === 'allowed' || crossing === 'ignored') assert.equal(answer.status, route.success, answer.text)
        else assert.deepEqual([answer.status, answer.body.error_code], statuses[crossing], `${value}: ${answer.text}`)
        assert.deepEqual(await contentsOfAccount(plane.db, victim), before, `${value} changed what the other has`)
        if (crossing === 'unknown' || crossing === 'ignored') {
          const absent = newId(value.slice(0, value.lastIndexOf('_')) as IdPrefix)
          const nobodys = await call(attacker, ids, withName(rest, name.place, absent))
          const alike = (one: Answer, id: string) => tellingPart({ ...one, text: one.text.replaceAll(id, 'id') })
          assert.deepEqual(alike(answer, value), alike(nobodys, absent), 'the answer tells whose it is')
        }
        assert.ok(!answer.text.includes(victim.accountId) && !answer.text.includes(victim.adminId), answer.text)
      }
    })
  }
}

test('a conflict looks the same for an identical name and for one that covers it', async () => {
  const domain = freshHost()
  await newHttpsEdge(victim, { hostports: [`*.${domain}:443`, `a.${domain}:443`] })
  const route = routes.find(({ operation }) => operation === 'https_edges.create') ?? assert.fail()
  const [exact, covered] = await Promise.all(
    ['a', 'b'].map(async (label) => {
      const answer = await callOf(route, attacker)({}, { hostports: [`${label}.${domain}:443`] })
      return tellingPart({ ...answer, text: answer.text.replaceAll(`${label}.${domain}`, 'x') })
    }),
  )
  assert.deepEqual(exact, covered)
})

test('the first account can still do all of this itself', async () => {
  for (const path of ['/edges/tcp', '/edges/https']) await make(victim, path)
  const domain = freshHost()
  await newHttpsEdge(victim, { hostports: [`*.${domain}:443`] })
  await newHttpsEdge(victim, { hostports: [`a.${domain}:443`] })
  assert.ok(attempts > 40, `${attempts} attempts`)
})
