import { type Db, many, one } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

export type TableContents = { rows: number; digest: string }
/** Fingerprint of a database, to compare a restored one with the original. */
export type Contents = {
  tables: Record<string, TableContents>
  /** Last value of each sequence. */
  sequences: Record<string, number>
  migrations: string[]
  /** Roles other than the owner that have rights on tables. */
  roles: string[]
}

/** Call it in a snapshot. Partitions count as part of their table, because their division may change over time. */
export async function contentsOf(db: Db): Promise<Contents> {
  // The text form of values must not depend on server settings.
  for (const text of [
    'set local intervalstyle = iso_8601',
    'set local bytea_output = hex',
    'set local extra_float_digits = 1',
  ])
    await db.query({ text })
  const tables: Record<string, TableContents> = {}
  for (const name of await tableNames(db)) tables[name] = await contentsOfTable(db, name)
  return {
    tables,
    sequences: await sequencesOf(db),
    migrations: await appliedMigrations(db),
    roles: await grantees(db),
  }
}

/** Sequences are not part of a snapshot, so these are their current values. */
export async function sequencesOf(db: Db): Promise<Record<string, number>> {
  const rows = await many<{ name: string; last: string | null }>(
    db,
    sql`select sequencename as name, last_value::text as last from pg_sequences where schemaname = current_schema() order by 1`,
  )
  return Object.fromEntries(rows.map(({ name, last }) => [name, Number(last)]))
}

export const tableNames = async (db: Db): Promise<string[]> =>
  (
    await many<{ name: string }>(
      db,
      sql`
    select relname as name from pg_class
    where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition order by 1`,
    )
  ).map(({ name }) => name)

/**
 * Sums the hashes of the rows, so neither order nor sorting matters. This detects accidents; the encryption of the
 * backup detects tampering.
 */
async function contentsOfTable(db: Db, name: string): Promise<TableContents> {
  const { rows } = await db.query({
    text: `select count(*)::text as rows,
             coalesce(sum(('x' || left(encode(sha256(convert_to(t::text, 'UTF8')), 'hex'), 16))::bit(64)::bigint), 0)::text as digest
           from "${name}" t`,
  })
  const [found] = rows as { rows: string; digest: string }[]
  return { rows: Number(found?.rows), digest: `${found?.digest}` }
}

async function appliedMigrations(db: Db): Promise<string[]> {
  const { exists } = await one<{ exists: boolean }>(db, sql`select to_regclass('migrations') is not null as exists`)
  if (!exists) return []
  return (await many<{ name: string }>(db, sql`select name from migrations order by name`)).map(({ name }) => name)
}

const grantees = async (db: Db): Promise<string[]> =>
  (
    await many<{ name: string }>(
      db,
      sql`
    select distinct r.rolname as name
    from pg_class c cross join lateral aclexplode(c.relacl) a join pg_roles r on r.oid = a.grantee
    where c.relnamespace = current_schema()::regnamespace and a.grantee <> c.relowner order by 1`,
    )
  ).map(({ name }) => name)

/** How a restored database differs from the original; empty if it does not. */
export function differences(recorded: Contents, found: Contents): string[] {
  const names = new Set([...Object.keys(recorded.tables), ...Object.keys(found.tables)])
  const ofTables = [...names].sort().flatMap((name) => {
    const [wanted, has] = [recorded.tables[name], found.tables[name]]
    if (!wanted) return [`${name} is not in the backup`]
    if (!has) return [`${name} is missing`]
    if (wanted.rows !== has.rows) return [`${name} has ${has.rows} rows instead of ${wanted.rows}`]
    return wanted.digest === has.digest ? [] : [`${name} has ${has.rows} rows, and not those that were backed up`]
  })
  // Values were recorded before the dump, so the dump may be ahead but never behind.
  const ofSequences = Object.entries(recorded.sequences)
    .filter(([name, last]) => (found.sequences[name] ?? -1) < last)
    .map(([name, last]) => `the sequence ${name} is at ${found.sequences[name] ?? 'nothing'} instead of ${last}`)
  return [...ofTables, ...ofSequences]
}

export const rowsIn = ({ tables }: Pick<Contents, 'tables'>): number =>
  Object.values(tables).reduce((sum, { rows }) => sum + rows, 0)
