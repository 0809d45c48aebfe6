// Uses a PostgreSQL that is already running: for machines on which ours cannot start, and for testing another version.
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { appRole } from './app_role.ts'
import type { Postgres } from './postgres.ts'

export const suppliedUrl = process.env.GATEHOUSE_TEST_DATABASE_URL

/** A new database on it, which `stop` drops. */
export async function newSuppliedDatabase(url: string): Promise<Postgres> {
  const name = `gatehouse_dev_${randomBytes(4).toString('hex')}`
  const supplied = await useSuppliedPostgres(url, name)
  await asAdmin(url, async (admin) => {
    await admin.query(`create database ${name}`)
  })
  return { ...supplied, url: supplied.urlOf(name) }
}

/** The URL's role must be allowed to create databases and roles. Everything with the prefix is dropped at the end. */
export async function useSuppliedPostgres(url: string, prefix: string): Promise<Postgres> {
  const urlOf = (database: string) => {
    const other = new URL(url)
    other.pathname = database
    return other.href
  }
  await asAdmin(url, async (admin) => {
    const { rowCount } = await admin.query('select from pg_roles where rolname = $1', [appRole])
    if (rowCount === 0) await admin.query(`create role ${appRole} login password '${appRole}'`)
  })
  return {
    url,
    urlOf,
    stop: () =>
      asAdmin(url, async (admin) => {
        const { rows } = await admin.query<{ name: string }>(
          'select datname as name from pg_database where starts_with(datname, $1)',
          [prefix],
        )
        for (const { name } of rows) await admin.query(`drop database ${pg.escapeIdentifier(name)} with (force)`)
        // The role's password is public. If another run on the same server still needs the role, it stays.
        await admin.query(`drop role ${appRole}`).catch((error: { code?: string }) => {
          if (error.code !== dependentObjectsExist) throw error
        })
      }),
  }
}

const dependentObjectsExist = '2BP01'

async function asAdmin(url: string, work: (admin: pg.Client) => Promise<void>): Promise<void> {
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  try {
    await work(admin)
  } finally {
    await admin.end()
  }
}
