import { lockInTransaction } from './advisory_locks.ts'
import { type Db, many, maybeOne, run } from './pool.ts'
import { sql } from './sql.ts'

/** The message tells the operator why the role cannot be used as it is. */
export class UnfitRole extends Error {
  override readonly name = 'UnfitRole'
}

// Tables on which the role has fewer rights than on all others. Partitions of the audit log are accessible through
// their parent only.
const lesserRights: Record<string, string[]> = {
  audit_events: ['select', 'insert'],
  audit_retention: ['select'],
  backups: ['select'],
  fleet_events: ['select', 'insert'],
  migrations: ['select'],
  signing_keys: ['select', 'insert', 'update'],
}
const rightsOn = (table: string): string[] => lesserRights[table] ?? ['select', 'insert', 'update', 'delete']

/**
 * Grants the role of `serve` what it needs and nothing else: no DDL, and only select and insert on the audit log. The
 * owner runs it after every migration, because new tables have no grants. One transaction, so that a running `serve`
 * never loses a right.
 */
export async function grantToAppRole(tx: Db, role: string, auditRetentionMonths: number): Promise<void> {
  // Concurrent grants would fail on each other's catalog rows.
  await run(tx, sql`select ${lockInTransaction('grants')}`)
  await refuseUnfit(tx, role)
  const tables = await many<{ name: string }>(
    tx,
    sql`
    select c.relname as name from pg_class c
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    order by 1`,
  )
  // The settings allow only lower-case letters, digits and underscores.
  const grantee = `"${role}"`
  const schema = await maybeOne<{ name: string }>(tx, sql`select quote_ident(current_schema()) as name`)
  const statements = [
    `revoke all on all tables in schema ${schema?.name} from ${grantee}`,
    `revoke all on all sequences in schema ${schema?.name} from ${grantee}`,
    `grant usage on schema ${schema?.name} to ${grantee}`,
    ...tables.map(({ name }) => `grant ${rightsOn(name).join(', ')} on "${name}" to ${grantee}`),
    `grant usage, select on all sequences in schema ${schema?.name} to ${grantee}`,
    `grant execute on function add_audit_partition(date), drop_audit_partition(int, timestamptz) to ${grantee}`,
    `grant execute on function add_request_partition(date), drop_request_partition(date) to ${grantee}`,
  ]
  for (const text of statements) await tx.query({ text })
  await run(tx, sql`update audit_retention set least_months = ${auditRetentionMonths}`)
}

/** Rights that `serve` needs and this connection's role lacks, per table. Undefined if there are no tables yet. */
export async function missingRights(db: Db): Promise<{ table: string; rights: string[] }[] | undefined> {
  const tables = await many<{ name: string; rights: string[] }>(
    db,
    sql`
    select c.relname as name, array(
      select r from unnest(array['select', 'insert', 'update', 'delete']) r where has_table_privilege(c.oid, r)) as rights
    from pg_class c
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    order by 1`,
  )
  if (tables.length === 0) return undefined
  return tables
    .map(({ name, rights }) => ({
      table: name,
      rights: rightsOn(name).filter((right) => !rights.includes(right)),
    }))
    .filter(({ rights }) => rights.length > 0)
}

/** Whether this connection's role could delete audit events. */
export async function mayDeleteAudit(db: Db): Promise<boolean> {
  const rights = await maybeOne<{ deletes: boolean }>(
    db,
    sql`select has_table_privilege('audit_events', 'delete') as deletes`,
  )
  return rights?.deletes ?? false
}

async function refuseUnfit(tx: Db, role: string): Promise<void> {
  const found = await maybeOne<{ superuser: boolean; owner: boolean; creates: boolean }>(
    tx,
    sql`
    select r.rolsuper as superuser, pg_has_role(r.oid, c.relowner, 'member') as owner,
      has_schema_privilege(r.oid, c.relnamespace, 'create') as creates
    from pg_roles r, pg_class c where r.rolname = ${role} and c.oid = 'audit_events'::regclass`,
  )
  if (!found) throw new UnfitRole(`the role ${role} does not exist. Create it: create role ${role} login password '…'`)
  if (found.superuser || found.owner)
    throw new UnfitRole(
      `the role ${role} is a superuser, or the owner of the tables or a member of it, and can do everything. Create another one`,
    )
  if (found.creates)
    throw new UnfitRole(
      `the role ${role} may create tables in the schema. Take that right from it, or from everyone: revoke create on schema public from public`,
    )
}
