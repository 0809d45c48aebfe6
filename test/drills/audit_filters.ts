// `npm run drill -- audit-filters`: pages of filtered audit events take as long with a million events as with ten thousand,
// and what a position costs a change.
import { type DbPool, openPool } from '../../src/db/pool.ts'
import { newId, newUuid } from '../../src/kernel/ids.ts'
import type { AuditEventQuery } from '../../src/resources/audit_events/schema.ts'
import { beginning, type Found, listAuditEvents, listCommittedEvents } from '../../src/resources/audit_events/store.ts'
import { newDatabase } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'

const many = Number(process.argv[2] ?? 1_000_000)
const rounds = 30
const account = { accountId: newUuid() }
const [ada, bob] = [newId('usr'), newId('bot')]

/** Two owners who never use each other's operation, from 250 addresses. */
async function fill(db: DbPool, count: number): Promise<number> {
  const began = performance.now()
  for (let done = 0; done < count; done += 50_000)
    await db.query({
      text: `insert into audit_events
               (account_id, id, operation, operation_id, owner_id, api_key_id, source_ip, resource_id, before, after)
             select $1, uuidv7(), case n % 2 when 0 then 'a.create' else 'b.create' end, 'op_',
               case n % 2 when 0 then $2 else $3 end, 'ak_' || n % 20, '10.0.0.1'::inet + n % 250, 'ak_' || n % 50,
               null, '{"id": "x", "description": "an event of usual size", "metadata": "some more text of a resource"}'
             from generate_series(1, ${Math.min(50_000, count - done)}) n`,
      values: [account.accountId, ada, bob],
    })
  const ms = performance.now() - began
  await db.query({ text: 'vacuum analyze audit_events' })
  return ms
}

const queries: Record<string, AuditEventQuery> = {
  all: {},
  since: { since: '2026-01-01T00:00:00Z' },
  owner: { owner_id: ada },
  operation: { operation: 'a.create' },
  'unused operation': { operation: 'c.create' },
  'owner and operation that never meet': { owner_id: ada, operation: 'b.create' },
  pattern: { operation: 'a.*' },
  'pattern that matches nothing': { operation: 'c.*' },
  resource: { resource_id: 'ak_7' },
  'resource and owner that never meet': { resource_id: 'ak_7', owner_id: ada },
  'resource type without events': { resource_type: 'usr' },
  'an address': { source_ip: '10.0.0.7' },
  'a range without events': { source_ip: '192.0.2.0/24' },
  'a key without events': { api_key_id: newId('ak') },
}
const readers: Record<string, (db: DbPool, query: AuditEventQuery) => Promise<Found>> = {
  newest: (db, query) => listAuditEvents(db, account, query),
  committed: (db, query) => listCommittedEvents(db, account, beginning, query),
}

async function medians(db: DbPool): Promise<Map<string, number>> {
  const found = new Map<string, number>()
  for (const [order, read] of Object.entries(readers))
    for (const [name, query] of Object.entries(queries)) {
      const times: number[] = []
      for (let round = 0; round < rounds; round++) {
        const began = performance.now()
        await read(db, query)
        times.push(performance.now() - began)
      }
      found.set(`${order}, ${name}`, times.sort((a, b) => a - b)[rounds >> 1] ?? 0)
    }
  return found
}

await drill(async (scope) => {
  const open = async () => {
    const settings = { poolSize: 1, connectTimeoutMs: 10_000, statementTimeoutMs: 600_000 }
    const db = openPool({ url: await newDatabase(), ...settings }, () => {})
    scope.after(() => db.end())
    return db
  }
  const [small, large, bare] = [await open(), await open(), await open()]
  await fill(small, 10_000)
  await bare.query({ text: 'drop index audit_events_position' })
  const each = (ms: number) => `${((ms * 1_000) / many).toFixed(1)} µs per event`
  console.log(`${many} events written: ${each(await fill(large, many))}`)
  console.log(`without the index of positions: ${each(await fill(bare, many))}`)
  const [few, more] = [await medians(small), await medians(large)]
  let worst = 0
  for (const [name, ms] of more) {
    const ratio = ms / (few.get(name) ?? ms)
    // A tenth of a millisecond is as good as none.
    if (ms - (few.get(name) ?? 0) > 1) worst = Math.max(worst, ratio)
    console.log(
      `${name}: ${few.get(name)?.toFixed(2)} ms, with ${many}: ${ms.toFixed(2)} ms, ${ratio.toFixed(2)} times`,
    )
  }
  console.log(`worst ratio where the difference is above a millisecond: ${worst.toFixed(2)}`)
  return worst <= 1.5
})
