// The audit by months: made ahead of time, forgotten after the retention, and never in the way of a change.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type DbPool, many, openPool, run } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { firstUuidOf, newUuid } from '../src/kernel/ids.ts'
import { addAuditPartitions, dropAuditPartitions } from '../src/resources/audit_events/partitions.ts'
import { newDatabase, startControlPlane } from './harness/control_plane.ts'

async function openDatabase(): Promise<DbPool> {
  const url = await newDatabase()
  const db = openPool({ url, poolSize: 6, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 }, () => {})
  after(() => db.end())
  for (const name of await months(db)) await db.query({ text: `drop table audit_events_${name}` })
  return db
}

/** Months of the existing partitions, as 2027_01. */
async function months(db: DbPool): Promise<string[]> {
  const rows = await many<{ name: string }>(
    db,
    sql`select inhrelid::regclass::text as name from pg_inherits where inhparent = 'audit_events'::regclass order by 1`,
  )
  return rows.map(({ name }) => name.replace('audit_events_', '')).filter((name) => name !== 'default')
}

const account = newUuid()
const addEvent = (db: DbPool, at: number, resource: string) =>
  run(
    db,
    sql`insert into audit_events (account_id, id, operation, operation_id, resource_id)
        values (${account}, ${firstUuidOf(at)}, 'x', 'op_', ${resource})`,
  )
const eventsIn = (db: DbPool) =>
  many<{ month: string; resource_id: string }>(
    db,
    sql`select replace(tableoid::regclass::text, 'audit_events_', '') as month, resource_id
        from audit_events where account_id = ${account} order by id`,
  )

test('there is always a partition for this month, the next three, and the retention period', async () => {
  const db = await openDatabase()
  const names = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, index) =>
      new Date(Date.UTC(2026, from + index)).toISOString().slice(0, 7).replace('-', '_'),
    )
  // The last millisecond of each month is where a calendar goes wrong; two years from October 2026.
  for (let month = 9; month < 33; month++) {
    const now = Date.UTC(2026, month + 1) - 1
    await addAuditPartitions(db, now)
    await addEvent(db, now, `month ${month}`)
    await dropAuditPartitions(db, now, 4)
    assert.deepEqual(await months(db), names(Math.max(9, month - 4), month + 3))
  }
  assert.deepEqual(
    await eventsIn(db),
    [28, 29, 30, 31, 32].map((month) => ({ month: names(month, month)[0], resource_id: `month ${month}` })),
  )
  assert.deepEqual(await dropAuditPartitions(db, Date.UTC(2040, 0), 0), [], '0 keeps everything')
  assert.equal((await months(db)).length, 8)
})

test('any number of processes can run upkeep at once', async () => {
  const db = await openDatabase()
  const now = Date.UTC(2027, 5, 15)
  await Promise.all(Array.from({ length: 6 }, () => addAuditPartitions(db, now)))
  assert.deepEqual(await months(db), ['2027_06', '2027_07', '2027_08', '2027_09'])
  const later = Date.UTC(2028, 5, 15)
  const dropped = await Promise.all(Array.from({ length: 6 }, () => dropAuditPartitions(db, later, 1)))
  assert.deepEqual(await months(db), [])
  assert.equal(dropped.flat().length, 4, 'each by one of them')
})

test('an event whose month has no partition is kept, and upkeep moves it to the right one', async () => {
  const db = await openDatabase()
  const now = Date.UTC(2027, 5, 15)
  await addEvent(db, now, 'this month')
  await addEvent(db, Date.UTC(2027, 6, 1), 'next month')
  await addEvent(db, Date.UTC(2027, 4, 31), 'last month')
  assert.deepEqual(
    (await eventsIn(db)).map(({ month }) => month),
    ['default', 'default', 'default'],
  )
  await addAuditPartitions(db, now)
  assert.deepEqual(await months(db), ['2027_06', '2027_07', '2027_08', '2027_09'])
  assert.deepEqual(await eventsIn(db), [
    { month: 'default', resource_id: 'last month' },
    { month: '2027_06', resource_id: 'this month' },
    { month: '2027_07', resource_id: 'next month' },
  ])
  await addEvent(db, now + 1, 'after that')
  assert.equal((await eventsIn(db)).find(({ resource_id }) => resource_id === 'after that')?.month, '2027_06')
  await dropAuditPartitions(db, Date.UTC(2027, 7, 1), 1)
  assert.deepEqual(
    (await eventsIn(db)).map(({ resource_id }) => resource_id),
    ['next month'],
    'the retention holds there too',
  )
})

test('a change succeeds and is audited while its partition is missing or being created', async (t) => {
  const plane = await startControlPlane(t)
  const admin = await plane.newAccount()
  const drop = async () => {
    for (const name of await months(plane.db)) await plane.db.query({ text: `drop table audit_events_${name}` })
  }
  await drop()
  const { status, body: key } = await admin('POST', '/api_keys', { description: 'x' })
  assert.equal(status, 201)
  let over = false
  const ids: string[] = [key.id]
  const load = Array.from({ length: 4 }, async () => {
    while (!over) {
      const created = await admin('POST', '/api_keys', {})
      assert.equal(created.status, 201, created.text)
      ids.push(created.body.id)
    }
  })
  for (let round = 0; round < 5; round++) {
    await addAuditPartitions(plane.db, Date.now())
    assert.equal((await months(plane.db)).length, 4)
    if (round === 4) break
    // Back to where events come before their partition, without losing those that there are.
    await plane.db.query({
      text: `do $$ declare part text; begin
               lock table audit_events in access exclusive mode;
               for part in select inhrelid::regclass from pg_inherits
                           where inhparent = 'audit_events'::regclass and inhrelid <> 'audit_events_default'::regclass loop
                 execute format('alter table audit_events detach partition %s', part);
                 execute format('insert into audit_events select * from %s', part);
                 execute format('drop table %s', part);
               end loop; end $$`,
    })
  }
  over = true
  await Promise.all(load)
  const audited = await many<{ resource_id: string }>(
    plane.db,
    sql`select resource_id from audit_events where operation = 'api_keys.create'`,
  )
  assert.deepEqual(audited.map(({ resource_id }) => resource_id).sort(), ids.sort())
})
