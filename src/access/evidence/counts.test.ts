import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newDatabase } from '../../../test/harness/control_plane.ts'
import { type Db, many, one, openPool, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import type { Caller } from '../../identity/caller.ts'
import { newUuid, toId } from '../../kernel/ids.ts'
import { listWarnings, type Warning } from './counts.ts'
import { repairRollUps } from './roll_ups.ts'

const pool = openPool(
  { url: await newDatabase(), poolSize: 4, connectTimeoutMs: 10_000, statementTimeoutMs: 60_000 },
  () => {},
)
after(() => pool.end())

async function newRestriction() {
  const [accountId, id] = [newUuid(), newUuid()]
  await run(pool, sql`insert into accounts (id, name) values (${accountId}, ${accountId})`)
  await run(
    pool,
    sql`insert into ip_restrictions (account_id, id, type, enforced) values (${accountId}, ${id}, 'api', false)`,
  )
  const caller = { accountId } as Caller
  const list = (db: Db, limit: number, before?: Warning) => listWarnings(db, caller, toId('ipx', id), limit, before)
  return { accountId, id, list }
}

const rowsRead = async (tx: Db): Promise<number> =>
  (
    await one<{ rows: number }>(
      tx,
      sql`
      select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) as rows
      from pg_stat_xact_user_tables where relname = 'ip_restriction_addresses'`,
    )
  ).rows

test('a page of warnings costs what is on it, not a month of addresses', async () => {
  const { accountId, id, list } = await newRestriction()
  // 30 days, 40 addresses in each hour, each of them in three hours.
  await run(
    pool,
    sql`
    insert into ip_restriction_counts (account_id, ip_restriction_id, hour, source_ip, outcome, count, last_at)
    select ${accountId}, ${id}, h, '10.0.0.0'::inet + (floor(extract(epoch from h) / 10800)::bigint % 1000 * 200 + n), 'warned', 2,
      h + make_interval(secs => n)
    from generate_series(date_trunc('hour', now()) - interval '30 days', date_trunc('hour', now()), interval '1 hour') h,
      generate_series(0, 39) n`,
  )
  await repairRollUps(pool)
  for (const isAnalyzed of [false, true]) {
    if (isAnalyzed) await run(pool, sql`analyze ip_restriction_addresses`)
    await transaction(pool, async (tx) => {
      let before: Warning | undefined
      // A connection keeps a statement's plan from the sixth execution on: that one must be as good.
      for (let page = 0; page < 12; page++) {
        const already = await rowsRead(tx)
        const shown = await list(tx, 100, before)
        const read = (await rowsRead(tx)) - already
        assert.equal(shown.length, 100)
        before = shown.at(-1)
        assert.ok(read <= 100, `page ${page} read ${read} rows`)
      }
    })
  }
})

test('pages of warnings are those of a plain grouping, with any limit', async () => {
  const { accountId, id, list } = await newRestriction()
  await run(
    pool,
    sql`
    insert into ip_restriction_counts (account_id, ip_restriction_id, hour, source_ip, outcome, count, last_at, last_api_key_id)
    select ${accountId}, ${id}, h, case n % 2 when 0 then '10.0.0.0'::inet else '2001:db8::'::inet end + (n * n % 37),
      case when n % 5 = 0 then 'refused' else 'warned' end, n, max(h + make_interval(mins => n % 7)), 'ak_' || n
    from generate_series('2026-01-01'::timestamptz, '2026-01-03'::timestamptz, interval '1 hour') h, generate_series(1, 60) n
    where (n + extract(epoch from h)::bigint / 3600) % 11 < 3
    group by h, n
    on conflict do nothing`,
  )
  await repairRollUps(pool)
  const expected = await many<{ ip: string; count: number; last_at: string }>(
    pool,
    sql`
    select host(source_ip) as ip, sum(count)::bigint as count, max(last_at) as last_at from ip_restriction_counts
    where ip_restriction_id = ${id} and outcome = 'warned'
    group by source_ip order by max(last_at) desc, source_ip desc`,
  )
  assert.ok(expected.length > 30)
  for (const limit of [1, 7, 100]) {
    const all: Warning[] = []
    for (;;) {
      const page = await list(pool, limit, all.at(-1))
      all.push(...page)
      if (page.length < limit) break
    }
    assert.deepEqual(
      all.map(({ source_ip, count, last_at }) => ({ ip: source_ip, count, last_at })),
      expected,
    )
  }
})
