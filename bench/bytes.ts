// Bytes that an API key takes in PostgreSQL: its row and indexes, its lineage, and the audit event of its creation.
//   node bench/bytes.ts [--keys 5000]
import { parseArgs } from 'node:util'
import { one } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { createWorld } from './harness/world.ts'

const { values } = parseArgs({ options: { keys: { type: 'string', default: '5000' } } })
const keys = Number(values.keys)
const atOnce = 16
const parts = { key: ['api_keys'], lineage: ['api_key_ancestors'], 'audit event': ['audit_events'] }

const world = await createWorld({ keys: 1_000 })
const { origin } = await world.gatehouse()
const before = await sizes()
let left = keys
await Promise.all(Array.from({ length: atOnce }, create))
const after = await sizes()
let [all, ofIndexes] = [0, 0]
for (const [name, { total, indexes }] of Object.entries(after)) {
  const [bytes, indexed] = [
    (total - (before[name]?.total ?? 0)) / keys,
    (indexes - (before[name]?.indexes ?? 0)) / keys,
  ]
  ;[all, ofIndexes] = [all + bytes, ofIndexes + indexed]
  console.log(`${name.padEnd(12)} ${bytes.toFixed(0).padStart(5)} bytes, of which indexes ${indexed.toFixed(0)}`)
}
console.log(`${'together'.padEnd(12)} ${all.toFixed(0).padStart(5)} bytes, of which indexes ${ofIndexes.toFixed(0)}`)
await world.end()
process.exit(0)

async function create(): Promise<void> {
  while (left-- > 0) {
    const response = await fetch(`${origin}/api_keys`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${world.token}`,
        'Service-Version': '2',
        'Content-Type': 'application/json',
      },
      body: JSON.stringify({ description: 'deploys of the web shop' }),
    })
    if (response.status !== 201) throw new Error(await response.text())
    await response.arrayBuffer()
  }
}

/** With all partitions. */
async function sizes(): Promise<Record<string, { total: number; indexes: number }>> {
  await world.db.query({ text: 'vacuum' })
  const found: Record<string, { total: number; indexes: number }> = {}
  for (const [name, tables] of Object.entries(parts))
    found[name] = await one(
      world.db,
      sql`
      select sum(pg_total_relation_size(relid))::float8 as total, sum(pg_indexes_size(relid))::float8 as indexes
      from (
        select coalesce(part.relid, root) as relid
        from unnest(${tables}::regclass[]) root left join pg_partition_tree(root) part on true
        where part.isleaf is not false
      ) each`,
    )
  return found
}
