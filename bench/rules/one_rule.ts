import assert from 'node:assert/strict'
import type { Account, ControlPlane } from '../../test/harness/control_plane.ts'
import { policyWith, restrict } from '../../test/harness/ip.ts'
import { createTimes, type Measured, measured, timed } from './measures.ts'

const large = 100_000
type Restricted = { admin: Account; policy: string }

/**
 * One rule is added to a policy that decides about the caller, and the next request comes to the same process, then one to
 * another process. Then it is deleted. A policy of ten rules takes turns with one of 100,000.
 */
export async function measureOneRule(plane: ControlPlane, rounds: number): Promise<Measured[]> {
  const times = createTimes()
  const contenders: (Restricted & { rules: number })[] = []
  for (const rules of [10, large]) contenders.push({ rules, ...(await restricted(plane, rules)) })
  for (let round = 0; round < rounds; round++) {
    for (const { rules, admin, policy } of round % 2 ? contenders : contenders.toReversed()) {
      const of = `${rules} rules`
      const cidr = `198.51.${round & 255}.0/24`
      const created = await timed(times(`${of}: one added`), () =>
        admin('POST', '/ip_policy_rules', { ip_policy_id: policy, action: 'deny', cidr }),
      )
      assert.equal(created.status, 201, created.text)
      await next(admin, 0, times(`${of}: the next request`))
      await next(admin, 1, times(`${of}: the next request in another process`))
      const deleted = await timed(times(`${of}: one deleted`), () => admin('DELETE', created.body.uri))
      assert.equal(deleted.status, 204, deleted.text)
      await next(admin, 0, times(`${of}: the next request`))
      await next(admin, 1, times(`${of}: the next request in another process`))
    }
  }
  return contenders.flatMap(({ rules }) =>
    ['one added', 'one deleted', 'the next request', 'the next request in another process'].map((what) =>
      measured(`${rules} rules: ${what}`, times(`${rules} rules: ${what}`), rules === large ? 20 : undefined),
    ),
  )
}

async function next(admin: Account, process: number, into: number[]): Promise<void> {
  const { status, text } = await timed(into, () => admin('GET', '/caller', undefined, { process }))
  assert.equal(status, 200, text)
}

async function restricted(plane: ControlPlane, rules: number): Promise<Restricted> {
  const admin = await plane.newAccount()
  const lines = Array.from({ length: rules - 2 }, (_, i) =>
    i % 2 ? `allow 10.${i >> 16}.${(i >> 8) & 255}.${i & 255}` : `deny 2001:db8:0:${(i / 2).toString(16)}::/64`,
  )
  const policy = await policyWith(admin, 'allow 127.0.0.1', 'allow ::1', ...lines)
  await restrict(admin, { enforced: true, ip_policy_ids: [policy] })
  for (const process of [0, 1]) await next(admin, process, [])
  return { admin, policy }
}
