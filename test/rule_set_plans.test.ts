import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { run } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { policyWith, putRules } from './harness/ip.ts'
import { loadScaledTimeout } from './harness/load_scaled_timeout.ts'

const plane = await startControlPlane({ after })

const linesOf = (count: number, net: number) =>
  Array.from({ length: count }, (_, i) => `allow ${net}.${i >> 16}.${(i >> 8) & 255}.${i & 255} # customer ${i}`)

/** What a planner takes for the usual account: ten rules in one policy. */
async function fillWithSmallPolicies(): Promise<void> {
  await run(
    plane.db,
    sql`insert into accounts (id, name) select gen_random_uuid(), 'small ' || n from generate_series(1, 1000) n`,
  )
  await run(
    plane.db,
    sql`insert into ip_policies (account_id, id) select id, gen_random_uuid() from accounts where name like 'small %'`,
  )
  await run(
    plane.db,
    sql`
    insert into ip_policy_rules (account_id, id, ip_policy_id, cidr, action)
    select account_id, gen_random_uuid(), id, ('10.0.0.0'::inet + n)::cidr, 'allow'
    from ip_policies, generate_series(1, 10) n`,
  )
  for (const table of [sql`accounts`, sql`ip_policies`, sql`ip_policy_rules`])
    await run(plane.db, sql`analyze ${table}`)
}

test('replacing a large rule set repeatedly in a database of small ones never times out', async (t) => {
  await fillWithSmallPolicies()
  const admin = await plane.newAccount()
  const policy = await policyWith(admin)
  // A process keeps a statement's plan from the sixth execution on: that one must be as good.
  for (let round = 1; round <= 12; round++) {
    // Odd rounds find the same rules again, even ones find half of them changed.
    const lines = [...linesOf(10_000, 10), ...linesOf(10_000, 11 + (round >> 1))]
    const began = performance.now()
    const replaced = await putRules(admin, policy, lines)
    const ms = performance.now() - began
    assert.equal(replaced.status, 200, `replacement ${round}: ${replaced.text}`)
    t.diagnostic(`replacement ${round}: ${Math.round(ms)} ms`)
    assert.ok(ms < loadScaledTimeout(3_000), `replacement ${round} took ${Math.round(ms)} ms`)
    const { rules, added, removed } = replaced.body
    const changed = round === 1 ? 20_000 : round % 2 ? 0 : 10_000
    assert.deepEqual({ rules, added, removed }, { rules: 20_000, added: changed, removed: round === 1 ? 0 : changed })
  }
})

test('100,000 rules are replaced for the first time, identically and with half of them changed', async (t) => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin)
  const first = linesOf(100_000, 20)
  for (const { name, lines, added, removed } of [
    { name: 'first', lines: first, added: 100_000, removed: 0 },
    { name: 'identical', lines: first, added: 0, removed: 0 },
    { name: 'half changed', lines: [...first.slice(50_000), ...linesOf(50_000, 21)], added: 50_000, removed: 50_000 },
  ]) {
    const began = performance.now()
    const replaced = await putRules(admin, policy, lines)
    const ms = performance.now() - began
    assert.equal(replaced.status, 200, `${name}: ${replaced.text}`)
    assert.deepEqual([replaced.body.added, replaced.body.changed, replaced.body.removed], [added, 0, removed], name)
    t.diagnostic(`100,000 rules, ${name}: ${Math.round(ms)} ms`)
    assert.ok(ms < loadScaledTimeout(10_000), `${name} took ${Math.round(ms)} ms`)
  }
})
