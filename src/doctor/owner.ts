import type { Config } from '../config/config.ts'
import { type DbPool, one } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { type Finding, failed, ok } from './finding.ts'
import { connect, openForDoctor } from './postgres.ts'

const check = 'postgresql.owner'

type Rights = { role: string; foreign_tables: number; may_create: boolean; has_app_role: boolean }

/** Checks whether 'gatehouse migrate' would work with its own URL, which 'gatehouse serve' never has. */
export async function checkOwner(config: Config, urlFile: string): Promise<Finding[]> {
  const db = openForDoctor(config)
  try {
    const reached = await connect(config, db)
    return reached.status === 'failed'
      ? [{ ...reached, check, hint: `Correct the URL in ${urlFile}, with which 'gatehouse migrate' connects` }]
      : [await rightsFinding(config, db)]
  } finally {
    // Not awaited: a dead server does not confirm that a connection has ended.
    void db.end().catch(() => {})
  }
}

async function rightsFinding({ GATEHOUSE_DATABASE_APP_ROLE: appRole }: Config, db: DbPool): Promise<Finding> {
  const { role, foreign_tables, may_create, has_app_role } = await one<Rights>(
    db,
    sql`
    select current_user as role, has_schema_privilege('public', 'create') as may_create,
      ${appRole} = '' or exists (select from pg_roles where rolname = ${appRole}) as has_app_role,
      (select count(*) from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace
        and not pg_has_role(relowner, 'usage'))::int as foreign_tables`,
  )
  if (foreign_tables > 0)
    return failed(
      check,
      `${role} does not own ${foreign_tables} of the tables, so 'gatehouse migrate' cannot change them`,
      'Use the URL of the role that owns them, or run, as a superuser: reassign owned by <owner> to <role>',
    )
  if (!may_create)
    return failed(
      check,
      `${role} may not create tables`,
      `Run, as a superuser: grant create on schema public to ${role}`,
    )
  return has_app_role
    ? ok(check, `${role} can migrate the tables`)
    : failed(
        check,
        `the role ${appRole}, which 'gatehouse migrate' gives its rights, does not exist`,
        'Create it, or correct GATEHOUSE_DATABASE_APP_ROLE: docs/operate/database-roles.md',
      )
}
