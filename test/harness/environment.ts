import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { appRole } from '../../dev/app_role.ts'
import { type Postgres, startPostgres } from '../../dev/postgres.ts'
import { suppliedUrl, useSuppliedPostgres } from '../../dev/supplied_postgres.ts'
import { grantToAppRole } from '../../src/db/grants.ts'
import { migrate } from '../../src/db/migrate.ts'
import { openPool } from '../../src/db/pool.ts'
import { transaction } from '../../src/db/transaction.ts'
import { addAuditPartitions } from '../../src/resources/audit_events/partitions.ts'
import { addRequestPartitions } from '../../src/resources/requests/partitions.ts'
import { searchForTokens } from './token_search.ts'

const root = new URL('../..', import.meta.url).pathname
const memoryFolder = '/dev/shm'
const neededBytes = 6 * 1024 ** 3

const settings = {
  wal_level: 'replica',
  shared_buffers: '256MB',
  // It would visit hundreds of databases in turn, and change the plans of whichever it reaches.
  autovacuum: 'off',
  // A new database is a checkpoint. The log of the whole run stays, to be searched for tokens.
  wal_keep_size: '4GB',
  // Tables are small and never analyzed: a process for a part of a plan costs more than the whole query.
  max_parallel_workers_per_gather: '0',
  // Each file opens some twenty connections, and the usual 4,096 rounds of hashing make that slow by design.
  scram_iterations: '1',
}
const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])

/** Databases and node folders live in memory if there is enough: none of them must survive the run. */
async function temporaryFolder(): Promise<string> {
  if (process.env.TMPDIR) return process.env.TMPDIR
  const found = await statfs(memoryFolder).catch(() => undefined)
  return found && found.bavail * found.bsize > neededBytes ? memoryFolder : tmpdir()
}

/**
 * Runs a Node process with what test files and drills need: a PostgreSQL with a migrated template, and
 * a folder for logs and issued tokens. Then searches everything that was left behind for those tokens. Resolves to
 * the exit code.
 */
export async function runWithEnvironment(args: string[]): Promise<number> {
  process.env.TMPDIR = await temporaryFolder()
  // Unique to this run: other runs may use the same server.
  const prefix = `t_${randomBytes(4).toString('hex')}_`
  const own = suppliedUrl ? undefined : await startPostgres({ flags })
  const postgres = own ?? (await useSuppliedPostgres(suppliedUrl ?? '', prefix))
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-test-'))
  try {
    await createMigratedDatabase(postgres, `${prefix}template`)
    const child = spawn(process.execPath, args, {
      cwd: root,
      stdio: 'inherit',
      env: {
        ...process.env,
        GATEHOUSE_TEST_POSTGRES_URL: postgres.url,
        GATEHOUSE_TEST_DATABASE_PREFIX: prefix,
        GATEHOUSE_TEST_FOLDER: folder,
        // Most of the start-up time is spent compiling the same modules again.
        NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/gatehouse-tests'),
      },
    })
    const [code] = await once(child, 'exit')
    const leaks = await searchForTokens({ postgres, prefix, dataDir: own?.dataDir, folder })
    for (const leak of leaks) console.error(`a token was found in ${leak}`)
    return code === 0 && leaks.length === 0 ? 0 : 1
  } finally {
    await postgres.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

/** Resolves to its URL, as the owner. The role that tests serve under has exactly the rights that `serve` needs. */
export async function createMigratedDatabase(postgres: Postgres, name: string): Promise<string> {
  const admin = new pg.Client({ connectionString: postgres.url })
  await admin.connect()
  await admin.query(`create database ${name}`)
  await admin.end()
  const url = postgres.urlOf(name)
  const db = openPool({ url, poolSize: 2, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 }, () => {})
  await migrate(db)
  await addAuditPartitions(db, Date.now())
  await addRequestPartitions(db, Date.now())
  await transaction(db, (tx) => grantToAppRole(tx, appRole, 13))
  await db.end()
  return url
}
