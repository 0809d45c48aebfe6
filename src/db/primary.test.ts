import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { type LocalPostgres, startPostgres } from '../../dev/postgres.ts'
import { poll } from '../../test/harness/poll.ts'
import { type Standby, startStandby } from '../../test/harness/standby.ts'
import { isUnavailable, OutcomeUnknown } from './failures.ts'
import { type DbPool, later, many, openPool, run } from './pool.ts'
import { sql } from './sql.ts'
import { changeAtOnce, transaction } from './transaction.ts'

let primary: LocalPostgres
let standby: Standby
let admin: pg.Client
// Not hooks of their own: those that are registered in a hook belong to it.
const cleanUps: (() => Promise<unknown>)[] = []
const scope = { after: (cleanUp: () => Promise<unknown>) => void cleanUps.push(cleanUp) }
after(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp()
})
before(async () => {
  primary = await startPostgres()
  scope.after(() => primary.stop())
  admin = new pg.Client({ connectionString: primary.url })
  admin.on('error', () => {})
  await admin.connect()
  scope.after(() => admin.end().catch(() => {}))
  await admin.query('create table notes (id int primary key)')
  standby = await startStandby(scope, primary)
})

const hostsOf = (...urls: string[]) => urls.map((url) => new URL(url).host).join()
function open(hosts: string, more = '', extra: { statementTimeoutMs?: number } = {}): DbPool {
  const url = `postgres://postgres:postgres@${hosts}/postgres${more}`
  const pool = openPool({ url, poolSize: 3, connectTimeoutMs: 10_000, statementTimeoutMs: 20_000, ...extra }, () => {})
  scope.after(() => pool.end())
  return pool
}
const portOf = async (db: Pick<DbPool, 'query'>) =>
  (await many<{ port: number }>(db, sql`select current_setting('port')::int as port`))[0]?.port
const insert = (id: number) => sql`insert into notes values (${id}) returning id`
const noted = async () => (await admin.query('select id from notes order by id')).rows.map(({ id }) => id)

test('connections lead to the server that accepts changes, wherever it is in the list', async () => {
  const nothing = '127.0.0.1:9'
  for (const hosts of [
    hostsOf(standby.url, primary.url),
    hostsOf(primary.url, standby.url),
    `${nothing},${hostsOf(primary.url)}`,
  ])
    for (const more of ['', '?target_session_attrs=read-write']) {
      const pool = open(hosts, more)
      for (const db of [pool, pool.lookUps]) assert.equal(await portOf(db), Number(new URL(primary.url).port))
    }
})

test('a single server that only reads is refused when the URL asks for one that writes', async () => {
  const pool = open(hostsOf(standby.url), '?target_session_attrs=read-write')
  await assert.rejects(run(pool, sql`select 1`), (error: Error) => {
    assert.match(error.message, /^no server of PostgreSQL accepts changes: 127\.0\.0\.1:\d+: it is a standby/)
    return isUnavailable(error)
  })
  const wrong = openPool(
    {
      url: `postgres://postgres:wrong@${hostsOf(standby.url, primary.url)}/postgres`,
      poolSize: 1,
      connectTimeoutMs: 5_000,
      statementTimeoutMs: 5_000,
    },
    () => {},
  )
  scope.after(() => wrong.end())
  await assert.rejects(run(wrong, sql`select 1`), { code: '28P01' }, 'a wrong password is not a missing primary')
})

test('a commit whose wait for the standby is canceled has an unknown outcome, even if the role hides warnings', async () => {
  await admin.query(`create role quiet superuser login password 'postgres'`)
  await admin.query('alter role quiet set client_min_messages = error')
  await admin.query(`alter system set synchronous_standby_names = 'missing'`)
  await admin.query('select pg_reload_conf()')
  await poll(
    async () => (await admin.query('show synchronous_standby_names')).rows[0].synchronous_standby_names,
    (names) => names === 'missing',
  )
  const pool = open(hostsOf(primary.url))
  const quiet = openPool(
    {
      url: primary.url.replace('//postgres:', '//quiet:'),
      poolSize: 2,
      connectTimeoutMs: 10_000,
      statementTimeoutMs: 20_000,
    },
    () => {},
  )
  scope.after(() => quiet.end())
  let id = 1
  const changes = [
    (db: DbPool) => transaction(db, (tx) => run(tx, insert(id))),
    (db: DbPool) => changeAtOnce(db, insert(id)),
    (db: DbPool) => run(db, insert(id)),
  ]
  for (const db of [pool, quiet])
    for (const change of changes) {
      const changing = change(db)
      const canceled = poll(
        async () =>
          (await admin.query(`select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`))
            .rowCount,
        Boolean,
      )
      await assert.rejects(changing, OutcomeUnknown, `${changes.indexOf(change)}`)
      await canceled
      assert.ok((await noted()).includes(id), 'it is committed here, and nowhere else')
      id++
    }
  await admin.query('alter system reset synchronous_standby_names')
  await admin.query('select pg_reload_conf()')
})

test('after a failover, connections to the old primary are closed, and none leads there again', async () => {
  const pool = open(hostsOf(primary.url, standby.url))
  await Promise.all([1, 2, 3].map(() => run(pool, sql`select pg_sleep(0.1)`)))
  const before = await portOf(pool)
  assert.equal(before, Number(new URL(primary.url).port))
  const impatient = open(hostsOf(primary.url, standby.url), '', { statementTimeoutMs: 1_000 })
  await portOf(impatient)
  const processes = childrenOf(primary.pid)
  // Even when the test fails: a frozen server does not end.
  const thaw = async () => {
    for (const pid of processes) process.kill(pid, 'SIGCONT')
  }
  scope.after(() => thaw().catch(() => {}))
  for (const pid of processes) process.kill(pid, 'SIGSTOP')
  const hangingChange = transaction(impatient, async (tx) => {
    for (let id = 1_000; id < 1_015; id++) await later(tx, insert(id))
  })
  hangingChange.catch(() => {})
  const hanging = portOf(pool).then(
    () => assert.fail('a frozen server has answered'),
    (error: Error) => error,
  )
  const stopped = performance.now()
  await assert.rejects(hangingChange, OutcomeUnknown)
  assert.ok(performance.now() - stopped < 15_000, 'before the time-out of each of its statements')
  await standby.promote()
  const began = performance.now()
  await poll(
    () => portOf(pool).catch(() => undefined),
    (port) => port === standby.port,
  )
  assert.ok(performance.now() - began < 15_000, 'before the time-out of a statement')
  assert.ok(isUnavailable(await hanging))
  await thaw()
  assert.equal(await portOf(open(hostsOf(primary.url))), before, 'it answers, and does not know what has happened')
  process.kill(standby.pid, 'SIGQUIT')
  const reason = await poll(
    () => portOf(pool).then(String, (error: Error) => error.message),
    (text) => /another server has been the primary since it was/.test(text),
  )
  assert.match(reason, /^no server of PostgreSQL accepts changes/)
})

/** With the process itself, which comes first. */
const childrenOf = (pid: number): number[] => [
  pid,
  ...execFileSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map(Number),
]
