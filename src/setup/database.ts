import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { ConfigError } from '../kernel/config_error.ts'
import { folders, newPassword, writeOnce } from './files.ts'
import type { Step } from './step.ts'

const database = 'gatehouse'
/** The owner migrates. The other role serves: it owns nothing, and 'gatehouse migrate' grants it what it needs. */
const roles = [
  { role: 'gatehouse_owner', file: `${folders.controlPlane}/database-owner-url` },
  { role: 'gatehouse_app', file: `${folders.controlPlane}/database-url` },
]

export function requirePostgres(): void {
  try {
    askPostgres('select 1')
  } catch (error) {
    throw new ConfigError(
      `PostgreSQL does not answer on this machine: ${(error as Error).message}. Install it with: apt install postgresql`,
    )
  }
}

export const databaseSteps = (): Step[] => [
  ...roles.flatMap(({ role, file }): Step[] => [
    {
      what: `${file}: the URL of the database as ${role}, with its password`,
      isDone: () => {
        const isThere = existsSync(file)
        if (!isThere && hasRole(role))
          throw new ConfigError(
            `PostgreSQL has a role ${role}, and ${file} is missing, so its password is not known here. Write the URL into the file, or remove the role`,
          )
        return isThere
      },
      run: () => {
        const port = askPostgres('show port')
        writeOnce(file, `postgresql://${role}:${newPassword()}@127.0.0.1:${port}/${database}\n`, 0o600)
      },
    },
    {
      what: `role ${role} in PostgreSQL`,
      isDone: () => hasRole(role),
      run: () => {
        const { username, password } = new URL(readFileSync(file, 'utf8').trim())
        if (username !== role || !/^[\w-]+$/.test(password))
          throw new ConfigError(`${file} is not a URL of ${role} that setup has made. Create the role yourself`)
        // The owner creates the database that 'gatehouse backup verify' restores into.
        const rights = role === 'gatehouse_owner' ? 'login createdb' : 'login'
        askPostgres(`create role ${role} ${rights} password '${password}'`)
      },
    },
  ]),
  {
    what: `database ${database} in PostgreSQL, owned by gatehouse_owner`,
    isDone: () => askPostgres(`select 1 from pg_database where datname = '${database}'`) === '1',
    run: () => void askPostgres(`create database ${database} owner gatehouse_owner`),
  },
]

const hasRole = (role: string): boolean => askPostgres(`select 1 from pg_roles where rolname = '${role}'`) === '1'

/**
 * Runs as PostgreSQL's superuser, which Debian authenticates by its name on this machine. Not as an argument, because the
 * statement may contain a password.
 */
function askPostgres(statement: string): string {
  const psql = [
    'psql',
    '--no-psqlrc',
    '--tuples-only',
    '--no-align',
    '--quiet',
    '--set=ON_ERROR_STOP=1',
    '--dbname=postgres',
  ]
  const { stdout, stderr, status, error } = spawnSync('runuser', ['-u', 'postgres', '--', ...psql], {
    cwd: '/',
    input: statement,
    encoding: 'utf8',
  })
  if (error || status !== 0) throw new Error((error?.message ?? stderr).trim())
  return stdout.trim()
}
