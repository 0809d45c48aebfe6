import { glob, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { foundIn, foundInBytes, type Needle } from './secret_forms.ts'
import { testRun } from './test_run.ts'

type Found = { place: string; forms: string[] }
export type SearchedDatabase = { found: Found[]; rows: number; fileBytes: number }

/**
 * Begins now, and later searches what a dump of the database would have, and what a copy of its files has in addition: rows that
 * were deleted or replaced, and the write-ahead log since now. The PostgreSQL of the tests comes without pg_dump, and that
 * of an older version refuses to dump it; a dump is these rows. Long values are compressed in files, and not in rows.
 */
export async function watchDatabase(databaseUrl: string) {
  const { segment } = await ask<{ segment: string }>('select pg_walfile_name(pg_current_wal_lsn()) as segment')
  return async (needles: readonly Needle[]): Promise<SearchedDatabase> => {
    const { found, rows } = await searchRows(databaseUrl, needles)
    await connected(testRun.postgresUrl, (client) => client.query('checkpoint'))
    const { dataDir, oid } = await ask<{ dataDir: string; oid: number }>(
      `select current_setting('data_directory') as "dataDir", oid from pg_database
       where datname = '${new URL(databaseUrl).pathname.slice(1)}'`,
    )
    let fileBytes = 0
    for await (const file of glob([`base/${oid}/*`, 'pg_wal/*'], { cwd: dataDir, withFileTypes: true })) {
      const isOlder = file.parentPath.endsWith('pg_wal') && file.name < segment
      if (!file.isFile() || isOlder) continue
      // PostgreSQL may remove one while we look.
      const bytes = await readFile(join(file.parentPath, file.name)).catch(() => Buffer.alloc(0))
      fileBytes += bytes.length
      const forms = foundInBytes(bytes, needles)
      if (forms.length > 0) found.push({ place: file.name, forms })
    }
    return { found, rows, fileBytes }
  }
}

const searchRows = (databaseUrl: string, needles: readonly Needle[]) =>
  connected(databaseUrl, async (client) => {
    const found: Found[] = []
    let rows = 0
    const { rows: tables } = await client.query<{ name: string }>(
      `select oid::regclass::text as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace`,
    )
    for (const { name } of tables) {
      const lines = (await client.query<{ line: string }>(`select t::text as line from ${name} t`)).rows
      rows += lines.length
      const forms = foundIn(lines.map(({ line }) => line).join('\n'), needles)
      if (forms.length > 0) found.push({ place: name, forms })
    }
    return { found, rows }
  })

/** As the owner of the tests' server. */
const ask = <Row extends object>(text: string): Promise<Row> =>
  connected(testRun.postgresUrl, async (client) => {
    const [row] = (await client.query<Row>(text)).rows
    if (!row) throw new Error(`nothing answers ${text}`)
    return row
  })

async function connected<Result>(url: string, work: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
