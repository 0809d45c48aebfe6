import { randomBytes } from 'node:crypto'
import { mkdir, open } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import { type Db, type DbPool, many, one } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { snapshot } from '../db/transaction.ts'
import { changeUrl, readDatabaseUrl } from '../kernel/database_url.ts'
import { type Manifest, readArchive } from './archive.ts'
import { type Contents, contentsOf, differences, tableNames } from './contents.ts'
import { BackupFault, fileFault } from './fault.ts'
import { start, withPasswordFile } from './programs.ts'

type Source = { file: string; identityFile: string }

/** A scratch database gets no privileges: the roles in the backup may not exist on its server. */
type Privileges = 'with privileges' | 'without privileges'

/** Restores in one transaction into a database without tables. Read the whole archive first; see `readArchive`. */
async function load({ file, identityFile }: Source, databaseUrl: string, privileges: Privileges): Promise<void> {
  await withPasswordFile(databaseUrl, async (url, env) => {
    const args = ['--single-transaction', '--exit-on-error', '--no-owner', `--dbname=${url}`]
    const restoring = start(
      'pg_restore',
      privileges === 'with privileges' ? args : [...args, '--no-privileges', '--no-security-labels'],
      env,
    )
    try {
      await readArchive(file, identityFile, { dump: restoring.write })
      restoring.stdin.end()
      await restoring.ended
    } catch (error) {
      restoring.kill()
      throw error
    }
  })
}

export async function isEmpty(db: Db): Promise<boolean> {
  return (await tableNames(db)).length === 0
}

/** Roles in the backup that this server lacks. */
export const missingRoles = async (db: Db, { roles }: Contents): Promise<string[]> =>
  (
    await many<{ name: string }>(
      db,
      sql`select name from unnest(${roles}::text[]) name where name not in (select rolname from pg_roles) order by 1`,
    )
  ).map(({ name }) => name)

/** The old tables are kept in this schema until the restored database has been compared with the backup. */
const setAside = 'gatehouse_before_restore'

/** Replaces all tables, or puts the old ones back if anything fails. */
export async function restoreDatabase(
  source: Source,
  db: DbPool,
  databaseUrl: string,
  manifest: Manifest,
): Promise<void> {
  const { schema, leftOver } = await one<{ schema: string; leftOver: boolean }>(
    db,
    sql`select quote_ident(current_schema()) as schema, to_regnamespace(${setAside}) is not null as "leftOver"`,
  )
  if (leftOver)
    throw new BackupFault(
      `an earlier restore did not finish: the schema ${setAside} has what the database had before. Rename it to ${schema}, or drop it`,
    )
  const wasEmpty = await isEmpty(db)
  const run = (text: string) => db.query({ text })
  if (!wasEmpty) {
    await run(`alter schema ${schema} rename to ${setAside}`)
    await run(`create schema ${schema}`)
  }
  try {
    await load(source, databaseUrl, 'with privileges')
    await compare(db, manifest)
  } catch (error) {
    await run(`drop schema ${schema} cascade`)
    await run(wasEmpty ? `create schema ${schema}` : `alter schema ${setAside} rename to ${schema}`)
    throw error
  }
  if (!wasEmpty) await run(`drop schema ${setAside} cascade`)
}

async function compare(db: DbPool, manifest: Manifest): Promise<void> {
  const [first, ...others] = differences(manifest, await snapshot(db, contentsOf))
  if (first)
    throw new BackupFault(
      `the restored database is not the one that was backed up: ${first}${others.length ? `, and ${others.length} more differences` : ''}`,
    )
}

type Scratch = { url: string; open: (url: string) => DbPool }

/** Restores into a new database of the server, compares, and drops it. */
export async function verifyBackup(source: Source, db: DbPool, { url, open }: Scratch): Promise<Manifest> {
  const manifest = await readArchive(source.file, source.identityFile)
  const name = `gatehouse_verify_${randomBytes(6).toString('hex')}`
  await db.query({ text: `create database ${name} template template0` }).catch((error: { code?: string }) => {
    if (error.code !== '42501') throw error
    const { user: username } = readDatabaseUrl(url)
    throw new BackupFault(
      `the role ${username} may not create the database that the backup is restored into. Allow it as an administrator of PostgreSQL: alter role ${username} createdb`,
    )
  })
  const scratchUrl = changeUrl(url, (its) => Object.assign(its, { pathname: name }))
  try {
    await load(source, scratchUrl, 'without privileges')
    const scratch = open(scratchUrl)
    try {
      await compare(scratch, manifest)
    } finally {
      await scratch.end()
    }
  } finally {
    await db.query({ text: `drop database ${name} with (force)` })
  }
  return manifest
}

/** Extracts the files of a backup into this folder without overwriting any. */
export async function extractFiles({ file, identityFile }: Source, folder: string): Promise<void> {
  const root = resolve(folder)
  await readArchive(file, identityFile, {
    async file(path, content, mode) {
      const target = join(root, path)
      if (!target.startsWith(`${root}${sep}`))
        throw new BackupFault(`the backup has a file outside of its folder: ${path}`)
      try {
        await mkdir(dirname(target), { recursive: true, mode: 0o700 })
        const handle = await open(target, 'wx', mode)
        await handle.writeFile(content).finally(() => handle.close())
      } catch (error) {
        throw fileFault(`cannot write ${target}`, error)
      }
    },
  })
}
