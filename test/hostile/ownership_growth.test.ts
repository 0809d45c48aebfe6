// What the constraint of rows 1 and 5 costs must not depend on how many hostports there are: it is to hold at ten million.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import pg from 'pg'
import { newUuid } from '../../src/kernel/ids.ts'
import { newDatabase } from '../harness/control_plane.ts'

const client = new pg.Client({ connectionString: await newDatabase() })
await client.connect()
after(() => client.end())

const [alice, others] = [newUuid(), Array.from({ length: 100 }, () => newUuid())]
const edgeOf = new Map<string, string>()
for (const account of [alice, ...others]) {
  const edge = newUuid()
  edgeOf.set(account, edge)
  await client.query('insert into accounts (id, name) values ($1, $2)', [account, account])
  await client.query(`insert into edges (account_id, id, kind) values ($1, $2, 'https')`, [account, edge])
}

/** Without the trigger, which is not what is measured here: names of many accounts under one domain, and Alice's port. */
async function grow(from: number, to: number): Promise<void> {
  await client.query('alter table hostports disable trigger user')
  await client.query(
    `insert into hostports (hostport, account_id, edge_id, position)
     select 'n-' || i || '.apps.example:443', accounts[1 + i % 100], edges[1 + i % 100], 0
     from generate_series($1::int, $2::int) i, (select $3::uuid[] as accounts, $4::uuid[] as edges) o
     union all
     select 'n-' || i || '.apps.example:20021', $5::uuid, $6::uuid, 0 from generate_series($1::int, $2::int) i`,
    [from, to - 1, others, others.map((account) => edgeOf.get(account)), alice, edgeOf.get(alice)],
  )
  await client.query('alter table hostports enable trigger user')
}

/** What one insert reads, by PostgreSQL's own count of this transaction, and how long it takes. It is rolled back. */
async function costOf(hostport: string) {
  await client.query('begin')
  const began = performance.now()
  const refused = await client
    .query('insert into hostports (hostport, account_id, edge_id, position) values ($1, $2, $3, 0)', [
      hostport,
      alice,
      edgeOf.get(alice),
    ])
    .then(
      () => false,
      ({ constraint }) => constraint === 'hostports_one_owner' || assert.fail(constraint),
    )
  const ms = performance.now() - began
  if (refused) await client.query('rollback')
  if (refused) return { refused, ms }
  const { rows } = await client.query(
    `select seq_scan::int as scans, (seq_tup_read + idx_tup_fetch)::int as rows
     from pg_stat_xact_user_tables where relname = 'hostports'`,
  )
  await client.query('rollback')
  return { refused, ms, ...rows[0] } as { refused: boolean; ms: number; scans?: number; rows?: number }
}

const asked = {
  'a name beside many of other accounts': 'mine.apps.example:443',
  'a name of many labels': `${'a.'.repeat(100)}example:443`,
  'a port with many hostports of its own': 'mine.apps.example:20021',
  'a free port': 'mine.apps.example:20022',
  'a wildcard beside many names': '*.mine.apps.example:443',
  'a wildcard over many names of others': '*.apps.example:443',
}

test('a claim reads a handful of rows by index, however many hostports there are', async (t) => {
  const measure = async () => {
    const costs: Record<string, Awaited<ReturnType<typeof costOf>>> = {}
    for (const [what, hostport] of Object.entries(asked)) {
      await costOf(hostport)
      costs[what] = await costOf(hostport)
    }
    return costs
  }
  await grow(0, 500)
  // On one connection and without ANALYZE: the plans are those that were made while the table was small.
  const small = await measure()
  await grow(500, 50_000)
  const large = await measure()
  for (const [what, { refused, scans, rows, ms }] of Object.entries(large)) {
    const before = small[what] ?? assert.fail()
    t.diagnostic(`${what}: ${before.ms.toFixed(2)} ms at 1,000 hostports, ${ms.toFixed(2)} ms at 100,000`)
    assert.equal(refused, what.startsWith('a wildcard over'), what)
    if (refused) continue
    assert.deepEqual([scans, before.scans], [0, 0], `${what}: reads the whole table`)
    assert.ok((rows ?? 99) <= 4, `${what}: reads ${rows} rows`)
  }
})
