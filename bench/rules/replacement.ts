import assert from 'node:assert/strict'
import { many } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { percentile, startBystander } from '../../test/harness/bystander.ts'
import type { ControlPlane } from '../../test/harness/control_plane.ts'
import { policyWith, putRules } from '../../test/harness/ip.ts'
import { processorMicroseconds } from '../harness/side_by_side.ts'
import { createTimes, type Measured, measured, timed } from './measures.ts'

const rules = 100_000

/**
 * A rule set is replaced for the first time, by itself, and by one of which half is new, in turn, while another account
 * calls the same process. Every replacement must succeed.
 */
export async function measureReplacement(plane: ControlPlane, rounds: number): Promise<Measured[]> {
  const times = createTimes()
  const bystander = await plane.newAccount()
  const wanted = { origin: plane.processes[0]?.origin ?? '', token: bystander.token, path: '/caller' }
  const admin = await plane.newAccount()
  const kept = await policyWith(admin, ...linesOf(10))
  const replace = async (name: string, policy: string, lines: readonly string[]) => {
    const end = startBystander(wanted)
    const before = await processorTimes(plane)
    const answer = await timed(times(name), () => putRules(admin, policy, lines))
    const after = await processorTimes(plane)
    const experience = await end()
    assert.equal(answer.status, 200, `${name}: ${answer.text}`)
    assert.deepEqual(experience.failures, [])
    times(`p99 of another account meanwhile: ${name}`).push(percentile(experience, 0.99))
    times(`processor time of the process: ${name}`).push(after.process - before.process)
    times(`processor time of PostgreSQL: ${name}`).push(after.postgres - before.postgres)
  }
  for (let round = 0; round < rounds; round++) {
    const first = await policyWith(admin)
    const set = linesOf(11 + round)
    await replace('first', first, set)
    // The same policy all the time: the sixth execution of a statement is where plans change.
    await replace('half changed', kept, [...linesOf(10).slice(rules / 2), ...linesOf(11 + round).slice(rules / 2)])
    await replace('identical', first, set)
    await admin('DELETE', `/ip_policies/${first}`)
  }
  const goals: Record<string, number> = { first: 3_000, identical: 1_000, 'half changed': 3_000 }
  return Object.entries(goals).flatMap(([name, goal]) => {
    const of = (what: string, limit?: number) => measured(`${what}: ${name}`, times(`${what}: ${name}`), limit)
    return [
      measured(name, times(name), goal),
      of('processor time of the process'),
      of('processor time of PostgreSQL'),
      of('p99 of another account meanwhile', 50),
    ]
  })
}

/** Milliseconds until now: a busy machine makes everything else longer. */
async function processorTimes({ db, processes }: ControlPlane): Promise<{ process: number; postgres: number }> {
  const backends = await many<{ pid: number }>(
    db,
    sql`select pid from pg_stat_activity where datname = current_database()`,
  )
  // One may end while we look.
  const each = await Promise.all(backends.map(({ pid }) => processorMicroseconds(pid).catch(() => 0)))
  return {
    process: (await processorMicroseconds(processes[0]?.child.pid ?? 0)) / 1_000,
    postgres: each.reduce((sum, microseconds) => sum + microseconds, 0) / 1_000,
  }
}

const linesOf = (net: number): string[] =>
  Array.from({ length: rules }, (_, i) => `allow ${net}.${i >> 16}.${(i >> 8) & 255}.${i & 255} # customer ${i}`)
