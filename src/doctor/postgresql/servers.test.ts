import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { startPostgres } from '../../../dev/postgres.ts'
import { poll } from '../../../test/harness/poll.ts'
import { startStandby } from '../../../test/harness/standby.ts'
import type { Config } from '../../config/config.ts'
import { openPool } from '../../db/pool.ts'
import { synchronousStandbys } from '../../http/readiness.ts'
import { checkServers } from './servers.ts'

const open = (url: string) =>
  openPool({ url, poolSize: 1, connectTimeoutMs: 5_000, statementTimeoutMs: 5_000 }, () => {})

test('doctor asks every server that the URL names, and says when a failover would lose changes', async (t) => {
  const cleanUps: (() => Promise<unknown>)[] = []
  t.after(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp()
  })
  const scope = { after: (cleanUp: () => Promise<unknown>) => void cleanUps.push(cleanUp) }
  const primary = await startPostgres()
  scope.after(() => primary.stop())
  const standby = await startStandby(scope, primary)
  const [first, second] = [new URL(primary.url).host, new URL(standby.url).host]
  const url = (...hosts: string[]) => `postgres://postgres:postgres@${hosts.join()}/postgres`
  const db = open(primary.url)
  scope.after(() => db.end())
  const check = async (...hosts: string[]) =>
    (await checkServers({ GATEHOUSE_DATABASE_URL: url(...hosts) } as Config, db, open)).map(({ status, message }) => [
      status,
      message,
    ])

  assert.deepEqual(await check(first), [])
  const [places, waits] = await check(first, second)
  assert.deepEqual(places, ['ok', `${first} accepts changes, ${second} is a standby`])
  assert.deepEqual(waits, [
    'warning',
    'PostgreSQL waits for no standby, so a failover now can lose acknowledged changes',
  ])

  const admin = new pg.Client({ connectionString: primary.url })
  await admin.connect()
  scope.after(() => admin.end())
  await admin.query(`alter system set synchronous_standby_names = 'standby'`)
  await admin.query('select pg_reload_conf()')
  await poll(
    () => check(first, second),
    ([, found]) => found?.[0] === 'ok',
  )
  // As 'gatehouse serve' sees it, whose role knows only that something is connected.
  await admin.query(`create role gatehouse_standby_test login password 'test'`)
  const plain = open(`postgres://gatehouse_standby_test:test@${first}/postgres`)
  scope.after(() => plain.end())
  assert.equal((await synchronousStandbys(plain)).present, 1)
  await admin.query(`alter system set synchronous_standby_names = 'another'`)
  await admin.query('select pg_reload_conf()')
  const [, away] = await poll(
    () => check(first, second),
    ([, found]) => found?.[0] !== 'ok',
  )
  assert.deepEqual(away, ['failed', 'PostgreSQL waits for a standby that is away, so changes get no answer: another'])
  process.kill(standby.pid, 'SIGSTOP')
  await admin.query(`select pg_terminate_backend(pid) from pg_stat_replication`)
  await poll(
    () => synchronousStandbys(plain),
    ({ names, present }) => names === 'another' && present === 0,
  ).finally(() => process.kill(standby.pid, 'SIGCONT'))
  await admin.query(`alter system set synchronous_standby_names = 'standby'`)
  await admin.query('select pg_reload_conf()')

  const [missing] = await check(first, '127.0.0.1:9')
  assert.match(String(missing), /^warning,.* accepts changes, 127\.0\.0\.1:9 does not answer: connect ECONNREFUSED/)
  await standby.promote()
  const [two] = await poll(
    () => check(first, second),
    ([found]) => found?.[0] === 'failed',
  )
  assert.deepEqual(two, ['failed', `${first} accepts changes, ${second} accepts changes`])
})
