// Row 18 of the security review: an attacker who takes over `serve` cannot destroy or forge audit events.
// Nearly all other tests serve under this role too: what it must be able to do, they show.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import pg from 'pg'
import { appRole, asAppRole } from '../../dev/app_role.ts'
import { type DbPool, many, one, openPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { firstUuidOf, newUuid } from '../../src/kernel/ids.ts'
import { addAuditPartitions, dropAuditPartitions } from '../../src/resources/audit_events/partitions.ts'
import { gatehouse } from '../harness/command.ts'
import { newDatabase, startControlPlane } from '../harness/control_plane.ts'

function open(url: string): DbPool {
  const db = openPool({ url, poolSize: 2, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 }, () => {})
  after(() => db.end())
  return db
}
async function openBoth(): Promise<{ url: string; owner: DbPool; app: DbPool }> {
  const url = await newDatabase()
  return { url, owner: open(url), app: open(asAppRole(url)) }
}
const monthOf = (name: string) => name.replace('audit_events_', '')
const partitions = async (db: DbPool) =>
  (
    await many<{ name: string }>(
      db,
      sql`select inhrelid::regclass::text as name from pg_inherits where inhparent = 'audit_events'::regclass order by 1`,
    )
  ).map(({ name }) => monthOf(name))
const addEvent = (db: DbPool, at: number) =>
  run(
    db,
    sql`insert into audit_events (account_id, id, operation, operation_id, resource_id)
        values (${newUuid()}, ${firstUuidOf(at)}, 'x', 'op_', 'x')`,
  )
const events = async (db: DbPool) => (await one<{ n: number }>(db, sql`select count(*)::int as n from audit_events`)).n

test('row 18: the role of `serve` reads and adds to the audit, and can do nothing else to it', async () => {
  const { owner, app } = await openBoth()
  await addEvent(app, Date.now())
  const [month] = (await partitions(owner)).filter((name) => name !== 'default')
  for (const text of [
    'delete from audit_events',
    "update audit_events set operation = 'y'",
    'truncate audit_events',
    `delete from audit_events_${month}`,
    `select * from audit_events_${month}`,
    `drop table audit_events_${month}`,
    'drop table audit_events',
    `alter table audit_events detach partition audit_events_${month}`,
    'alter table audit_events disable trigger all',
    'delete from audit_events_default',
    'update audit_retention set least_months = 1',
    'create rule r as on insert to audit_events do instead nothing',
    'create trigger t before insert on audit_events for each row execute function suppress_redundant_updates_trigger()',
  ])
    await assert.rejects(app.query({ text }), { code: '42501' }, text)
  assert.equal(await events(app), 1)
})

test('row 18: the role of `serve` creates no tables, functions or roles, edits no migration, and rewinds no generation', async () => {
  const { app } = await openBoth()
  for (const text of [
    'create table t (a int)',
    'create schema s',
    "create function f() returns int language sql as 'select 1'",
    'alter table api_keys add column x int',
    'drop table api_keys',
    'create index on api_keys (created_at)',
    'truncate api_keys',
    'create role r',
    "update migrations set checksum = ''",
    'delete from signing_keys',
    "select setval('outbox_generations', 1)",
    "set session authorization 'postgres'",
    "alter function add_audit_partition(date) set search_path = ''",
    "copy api_keys to program 'cat'",
  ])
    await assert.rejects(app.query({ text }), { code: '42501' }, text)
})

test('row 18: upkeep under the role of `serve` creates only the partitions that are due', async () => {
  const { owner, app } = await openBoth()
  for (const name of await partitions(owner))
    if (name !== 'default') await owner.query({ text: `drop table audit_events_${name}` })
  await addEvent(app, Date.now())
  await addAuditPartitions(app, Date.now())
  assert.equal((await partitions(owner)).length, 5)
  assert.equal(await events(app), 1, 'the event that came before its partition is in it')
  for (const month of ['2001-01-01', '2099-01-01', '2026-01-15'])
    await assert.rejects(app.query({ text: `select add_audit_partition('${month}')` }), { code: /42501|22023/ }, month)
})

test("row 18: upkeep drops only what is past the owner's retention, even if it asks for more", async () => {
  const { owner, app } = await openBoth()
  const now = Date.now()
  const monthsAgo = (count: number) => {
    const date = new Date(now)
    return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - count)
  }
  for (const count of [1, 5, 14, 15]) {
    await addAuditPartitions(owner, monthsAgo(count))
    await addEvent(app, monthsAgo(count) + 1)
  }
  const all = await partitions(owner)
  await run(owner, sql`update audit_retention set least_months = 0`)
  assert.deepEqual(await dropAuditPartitions(app, now, 1), [], 'nothing, when the owner keeps all')
  await run(owner, sql`update audit_retention set least_months = 13`)
  assert.deepEqual(await dropAuditPartitions(app, now, 0), [], 'nothing, when it asks to keep all')
  // Neither a short retention nor a moment far ahead gets at younger months.
  const dropped = await dropAuditPartitions(app, Date.UTC(2090, 0), 1)
  assert.equal(dropped.length, 2)
  assert.deepEqual(
    await partitions(owner),
    all.filter((name) => !dropped.map(monthOf).includes(name)),
  )
  assert.equal(await events(app), 2)
})

test('row 18: temporary tables with our table names do not fool functions that run as the owner', async () => {
  const { url, owner } = await openBoth()
  const fiveMonths = 150 * 24 * 60 * 60 * 1_000
  await addAuditPartitions(owner, Date.now() - fiveMonths)
  await addEvent(owner, Date.now() - fiveMonths)
  await addEvent(owner, Date.now() - 2 * fiveMonths)
  const before = await partitions(owner)
  for (const fake of [
    'create temporary table audit_retention (one boolean, least_months int); insert into audit_retention values (true, 1)',
    'create temporary table audit_events (id uuid)',
  ]) {
    const client = new pg.Client({ connectionString: asAppRole(url) })
    await client.connect()
    await client.query(`set search_path = pg_temp, public; ${fake}`)
    await client.query("select drop_audit_partition(1, '2090-01-01')")
    await client.end()
    assert.deepEqual([await partitions(owner), await events(owner)], [before, 2], fake)
  }
})

test('row 18: `migrate` grants rights to the given role after each migration, and refuses a superuser', async () => {
  const url = await newDatabase('template0')
  const env = { GATEHOUSE_DATABASE_URL: url }
  for (const [role, message] of [
    ['nobody_here', /the role nobody_here does not exist/],
    ['postgres', /is a superuser, or the owner/],
  ] as const) {
    const { code, stderr } = await gatehouse(['migrate'], { ...env, GATEHOUSE_DATABASE_APP_ROLE: role })
    assert.equal(code, 1)
    assert.match(stderr, message)
  }
  assert.equal((await gatehouse(['migrate'], { ...env, GATEHOUSE_DATABASE_APP_ROLE: 'a b' })).code, 2)
  const owner = open(url)
  await owner.query({ text: `grant delete on audit_events to ${appRole}` })
  const wanted = { ...env, GATEHOUSE_DATABASE_APP_ROLE: appRole, GATEHOUSE_AUDIT_RETENTION_MONTHS: '7' }
  const ended = await Promise.all([gatehouse(['migrate'], wanted), gatehouse(['migrate'], wanted)])
  for (const { code, stdout } of ended) assert.deepEqual([code, /granted gatehouse_app/.test(stdout)], [0, true])
  const { rights, least_months } = await one<{ rights: boolean; least_months: number }>(
    owner,
    sql`select has_table_privilege(${appRole}, 'audit_events', 'delete') as rights, least_months from audit_retention`,
  )
  assert.deepEqual([rights, least_months], [false, 7])
})

test('row 18: server commands work under the role of `serve`, except after-restore, which says so', async (t) => {
  const plane = await startControlPlane(t)
  const env = { GATEHOUSE_DATABASE_URL: asAppRole(plane.databaseUrl) }
  for (const args of [
    ['bootstrap', '--account', 'second'],
    ['recover', '--account', 'second'],
    ['signing-keys', 'add'],
    ['ip-restrictions', 'release', '--account', 'second', '--type', 'api'],
  ])
    assert.equal((await gatehouse(args, env)).code, 0, args.join(' '))
  const refused = await gatehouse(['after-restore'], env)
  assert.equal(refused.code, 2)
  assert.match(refused.stderr, /permission denied for sequence outbox_generations.*role that owns the tables/)
  const [line] = plane.processes.flatMap(({ log }) => log.filter(({ level }) => level === 'warn' || level === 'error'))
  assert.equal(line, undefined)
})
