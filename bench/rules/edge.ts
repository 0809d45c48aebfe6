import assert from 'node:assert/strict'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { dial, newGuardedEdge, startTcpUpstream, statusOf } from '../../test/agent/live_harness.ts'
import { type Scope, stop } from '../../test/harness/control_plane.ts'
import { startInstallation } from '../../test/harness/edge.ts'
import { poll } from '../../test/harness/poll.ts'
import { createTimes, type Measured, measured } from './measures.ts'

const changing = '127.0.0.9'
type Guarded = { port: number; policyId: string; rule?: string }

/** One rule of a policy changes, until a node decides by it. A policy of ten ranges takes turns with the large one. */
export async function measureEdge(scope: Scope, rounds: number, ranges: number): Promise<Measured[]> {
  const times = createTimes()
  const installation = await startInstallation(scope)
  const { admin, db } = installation
  const edge = await installation.startEdge()
  const upstream = await startTcpUpstream(scope)
  const small: Guarded = await newGuardedEdge(admin, edge.tcpPorts.first, upstream.port, 'allow 127.0.0.2')
  const large: Guarded = await newGuardedEdge(admin, edge.tcpPorts.first + 1, upstream.port, 'allow 127.0.0.2')
  const account = toUuid(admin.accountId as `ac_${string}`)
  for (let start = 0; start < ranges; start += 50_000)
    await run(
      db,
      // Every second address, so that no two ranges become one.
      sql`insert into ip_policy_rules (account_id, id, ip_policy_id, cidr, action)
      select ${account}, gen_random_uuid(), ${toUuid(large.policyId as `ipp_${string}`)}, ('10.0.0.0'::inet + n * 2)::cidr, 'allow'
      from generate_series(${start}::bigint, ${Math.min(ranges, start + 50_000) - 1}::bigint) n`,
    )
  // These were not written to the outbox: the next active publisher finds them missing from the bucket.
  const [first] = installation.processes
  if (first) await stop(first.child)
  await installation.startProcess()
  const client = installation.clientFor(admin.token)
  const change = async (guarded: Guarded): Promise<number> => {
    const answer = guarded.rule
      ? await client('DELETE', guarded.rule, undefined, { process: 1 })
      : await client(
          'POST',
          '/ip_policy_rules',
          { ip_policy_id: guarded.policyId, action: 'allow', cidr: changing },
          { process: 1 },
        )
    assert.ok(answer.status === 201 || answer.status === 204, answer.text)
    guarded.rule = guarded.rule ? undefined : answer.body.uri
    const answered = performance.now()
    while ((await dial(guarded.port, changing)) !== (guarded.rule ? 'hello' : undefined))
      assert.ok(performance.now() - answered < 120_000, 'a change is not in force after two minutes')
    const elapsed = performance.now() - answered
    await poll(
      () => statusOf(edge),
      (status) => status.applied >= Number(answer.headers.get('service-generation')),
      { withinSeconds: 600 },
    )
    return elapsed
  }
  // Behind other changes that the reconcile found.
  for (let warm = 0; warm < 4; warm++) for (const guarded of [small, large]) await change(guarded)
  for (let round = 0; round < rounds; round++)
    for (const guarded of round % 2 ? [small, large] : [large, small])
      for (const what of ['added', 'deleted'])
        times(`${guarded === small ? 'small' : 'large'}, ${what}`).push(await change(guarded))
  return [
    measured('one rule of a small policy added, until in force', times('small, added')),
    measured('one rule of a small policy deleted, until in force', times('small, deleted')),
    measured(`one rule of ${ranges} ranges added, until in force`, times('large, added'), 300),
    measured(`one rule of ${ranges} ranges deleted, until in force`, times('large, deleted'), 300),
  ]
}
