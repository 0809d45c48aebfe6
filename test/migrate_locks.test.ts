import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { appRole } from '../dev/app_role.ts'
import { gatehouse } from './harness/command.ts'
import { newDatabase } from './harness/control_plane.ts'
import { startInstallation } from './harness/edge.ts'
import { poll } from './harness/poll.ts'

const migrateAs = (url: string, waitSeconds: number) =>
  gatehouse(['migrate'], {
    GATEHOUSE_DATABASE_URL: url,
    GATEHOUSE_DATABASE_APP_ROLE: appRole,
    GATEHOUSE_MIGRATE_LOCK_WAIT_SECONDS: String(waitSeconds),
  })

async function connect(t: TestContext, url: string, application: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: application })
  await client.connect()
  t.after(() => client.end())
  return client
}

test('migrate grants the role of serve its rights while a publisher is active', async (t) => {
  const { databaseUrl, processes } = await startInstallation(t)
  await poll(() => processes[0]?.log.some(({ msg }) => msg === 'publisher: active'))
  const { code, stdout, stderr } = await migrateAs(databaseUrl, 10)
  assert.deepEqual([code, stderr], [0, ''])
  assert.match(stdout, new RegExp(`granted ${appRole} the rights`))
})

test('migrate gives up at its limit and names each lock and its holder', async (t) => {
  const url = await newDatabase()
  const other = await connect(t, url, 'another program')
  const holder = `held by pid ${(await other.query('select pg_backend_pid() as pid')).rows[0].pid} \\(application_name another program, role \\w+, state idle[^)]*, connected since`

  await other.query('select pg_advisory_lock(7204113001)')
  const migration = await migrateAs(url, 1)
  assert.equal(migration.code, 1)
  assert.match(migration.stderr, new RegExp(`gave up after 1 s waiting for another 'gatehouse migrate', ${holder}`))
  await other.query('select pg_advisory_unlock_all()')

  await other.query('select pg_advisory_lock(7204113004)')
  const grants = await migrateAs(url, 1)
  assert.equal(grants.code, 1)
  assert.match(grants.stderr, new RegExp(`waiting for the advisory lock 'grants' \\(7204113004\\), ${holder}`))
  assert.match(grants.stderr, /GATEHOUSE_MIGRATE_LOCK_WAIT_SECONDS/)
  await other.query('select pg_advisory_unlock_all()')
  assert.equal((await migrateAs(url, 1)).code, 0)
})
