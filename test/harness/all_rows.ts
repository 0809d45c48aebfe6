import type { DbPool } from '../../src/db/pool.ts'

/** Every row of every table as text, as a dump of the database has it. */
export async function allRows(db: DbPool): Promise<string> {
  const { rows: tables } = await db.query({
    text: `select relname as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace`,
  })
  let found = ''
  for (const { name } of tables) {
    const { rows } = await db.query({ text: `select t::text as row from "${name}" t` })
    found += rows.map(({ row }) => `${row}\n`).join('')
  }
  return found
}
