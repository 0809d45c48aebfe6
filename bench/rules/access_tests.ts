import assert from 'node:assert/strict'
import type { Answer } from '../../test/harness/client.ts'
import type { Account, ControlPlane } from '../../test/harness/control_plane.ts'
import { make, newHttpsEdge, newRoute, newTcpEdge } from '../../test/harness/fixtures.ts'
import { policyWith, restrict } from '../../test/harness/ip.ts'
import { createTimes, type Measured, measured, timed } from './measures.ts'

const tests = 200
type Tested = { name: string; admin: Account; policy: string; rule: string }

/**
 * Ordinary changes in an account without access tests, and in one with many of addresses, routes, edges and the API. Accounts and changes
 * take turns, so that what else the machine does hits all of them.
 */
export async function measureAccessTests(plane: ControlPlane, rounds: number): Promise<Measured[]> {
  const times = createTimes()
  const accounts = [await account(plane, 0), await account(plane, tests)]
  const names = new Set<string>()
  for (let round = 0; round < rounds; round++)
    for (const each of round % 2 ? accounts : accounts.toReversed())
      for (const [change, work] of Object.entries(changesOf(each, round))) {
        const name = `${each.name}: ${change}`
        names.add(name)
        const { status, text } = await timed(times(name), work)
        assert.ok(status < 300, text)
      }
  return [...names].sort().map((name) => measured(name, times(name)))
}

const changesOf = ({ admin, policy, rule }: Tested, round: number): Record<string, () => Promise<Answer>> => ({
  'create a key': () => admin('POST', '/api_keys', {}),
  'PATCH of a rule': () => admin('PATCH', `/ip_policy_rules/${rule}`, { description: `round ${round}` }),
  'PUT of 100 rules': () => admin('PUT', `/ip_policies/${policy}/rules?confirm=true`, { rules: rulesOf(round) }),
})

const rulesOf = (round: number) => [
  { action: 'allow', cidr: '0.0.0.0/0' },
  ...Array.from({ length: 99 }, (_, index) => ({ action: 'allow', cidr: `10.${round & 255}.${index}.0/24` })),
]

async function account(plane: ControlPlane, count: number): Promise<Tested> {
  const admin = await plane.newAccount()
  const lines = Array.from({ length: 98 }, (_, index) => `allow 10.9.${index >> 8}.${index & 255}`)
  const policies: string[] = []
  for (let index = 0; index < 5; index++)
    policies.push(await policyWith(admin, 'allow 0.0.0.0/0', 'allow ::/0', ...lines))
  const own = await policyWith(admin, 'allow 0.0.0.0/0')
  const module = (index: number) => ({ ip_restriction: { ip_policy_ids: [policies[index % 5], own] } })
  for (const type of ['api', 'endpoints', 'endpoints'])
    await restrict(admin, { type, enforced: true, ip_policy_ids: [...policies.slice(0, 3), own] })
  const edge = await newHttpsEdge(admin)
  const targets: object[] = [{ type: 'api' }]
  for (let index = 0; index < 20; index++) {
    const { id, match } = await newRoute(admin, module(index), edge)
    targets.push({ type: 'route', route_id: id, path: `${match}/x` })
  }
  for (let index = 0; index < 5; index++)
    targets.push({ type: 'edge', edge_id: (await newTcpEdge(admin, module(index))).id })
  for (let index = 0; index < count; index++) {
    const address = index % 4 ? `198.51.100.${index}` : `2001:db8::${index}`
    const target = targets[index % targets.length]
    await make(admin, '/access_tests?ignore_access_tests=true', { address, target, expect: 'allowed' })
  }
  const { ip_policy_rules } = (await admin('GET', `/ip_policy_rules?ip_policy_id=${policies[0]}`)).body
  const rule = ip_policy_rules.find(({ cidr }: { cidr: string }) => cidr === '0.0.0.0/0') ?? ip_policy_rules[0]
  return { name: `${count} access tests`, admin, policy: own, rule: rule.id }
}
