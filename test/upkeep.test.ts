import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { one, run } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { poll } from './harness/poll.ts'

const plane = await startControlPlane({ after })

test('upkeep deletes everything past its retention even if another task fails', async () => {
  await run(
    plane.db,
    sql`
    insert into ip_refusals (account_id, id, created_at, type, operation, ip_restriction_id)
    select gen_random_uuid(), gen_random_uuid(), now() - n * interval '1 day', 'api', 'caller.get', gen_random_uuid()
    from generate_series(1, 100) n, generate_series(1, 200)`,
  )
  await run(
    plane.db,
    sql`
    insert into outbox (generation, account_id, key, created_at)
    select -n, gen_random_uuid(), 'tcp.none', now() - interval '25 hours' from generate_series(1, 2500) n`,
  )
  // Another one that comes before them.
  await run(plane.db, sql`alter table edge_counts rename to edge_counts_elsewhere`)
  const { log } = await plane.startProcess()
  const count = (table: ReturnType<typeof sql>) => async () =>
    (await one<{ count: number }>(plane.db, sql`select count(*) from ${table}`)).count
  await poll(count(sql`ip_refusals`), (left) => left <= 29 * 200)
  await poll(count(sql`outbox where generation < 0`), (left) => left === 0)
  await run(plane.db, sql`alter table edge_counts_elsewhere rename to edge_counts`)
  assert.equal(await count(sql`ip_refusals`)(), 29 * 200, 'only what is older than 30 days')
  const failed = log.filter(({ msg }) => msg.startsWith('upkeep: a task failed'))
  assert.deepEqual(
    failed.map(({ task }) => task),
    ['delete counts of edges', 'add up counts'],
  )
})

test('without live edge nodes there is no metric for their generation', async () => {
  const metrics = await (await fetch(`${plane.processes[0]?.origin}/metrics`)).text()
  assert.match(metrics, /^# TYPE gatehouse_edge_applied_generation_min gauge$/m)
  assert.doesNotMatch(metrics, /^gatehouse_edge_applied_generation_min\b/m)
})
