// Runs the tests on a real PostgreSQL of their own, then searches everything they left behind for tokens.
//   npm test                    all of them
//   npm test -- src/kernel      those whose path contains one of the words
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { glob, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startPostgres } from '../dev/postgres.ts'
import { migrate } from '../src/db/migrate.ts'
import { openPool } from '../src/db/pool.ts'
import { addAuditPartitions } from '../src/resources/audit_events/partitions.ts'
import { searchForTokens } from './harness/token_search.ts'

const words = process.argv.slice(2).filter((word) => !word.startsWith('-'))
const flags = process.argv.slice(2).filter((word) => word.startsWith('-'))
const root = new URL('..', import.meta.url).pathname
const files = (await Array.fromAsync(glob('{src,test}/**/*.test.ts', { cwd: root })))
  .filter((file) => words.length === 0 || words.some((word) => file.includes(word)))
  .sort()
if (files.length === 0) throw new Error(`no test file has ${words.join(' or ')} in its path`)

const postgres = await startPostgres({ flags: ['-c', 'wal_level=replica', '-c', 'shared_buffers=256MB'] })
const folder = await mkdtemp(join(tmpdir(), 'gatehouse-test-'))
let passed = false
try {
  const admin = new pg.Client({ connectionString: postgres.url })
  await admin.connect()
  await admin.query('create database template')
  await admin.end()
  const template = openPool(
    { url: postgres.urlOf('template'), poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 60_000 },
    () => {},
  )
  await migrate(template)
  await addAuditPartitions(template, Date.now())
  await template.end()

  const runner = spawn(
    process.execPath,
    ['--test', '--test-concurrency=3', '--test-timeout=600000', ...flags, ...files],
    {
      cwd: root,
      stdio: 'inherit',
      env: { ...process.env, GATEHOUSE_TEST_POSTGRES_URL: postgres.url, GATEHOUSE_TEST_FOLDER: folder },
    },
  )
  const [code] = await once(runner, 'exit')
  const leaks = await searchForTokens(postgres, folder)
  for (const leak of leaks) console.error(`a token was found in ${leak}`)
  passed = code === 0 && leaks.length === 0
} finally {
  await postgres.stop()
  await rm(folder, { recursive: true, force: true })
}
// Said outright: the package that starts PostgreSQL ends a process that is merely done with 0, whatever its exitCode is.
process.exit(passed ? 0 : 1)
