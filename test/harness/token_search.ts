import { glob, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import type { LocalPostgres } from '../../dev/postgres.ts'

const tokenStart = 'gatehouse_'
const anyToken = /^gatehouse_(?:session_)?[0-9A-Za-z]{49}/
const longestToken = 'gatehouse_session_'.length + 49

/**
 * Where a token or session secret that was issued during the run can be found afterwards: in a log, in a row of a
 * database, or in the bytes of the data folder, write-ahead log included. Prints how much was searched.
 */
export async function searchForTokens(postgres: LocalPostgres, folder: string): Promise<string[]> {
  const noted = await readFile(join(folder, 'tokens'), 'latin1').catch(() => '')
  const issued = new Set(noted.split('\n').filter(Boolean))
  const leaks = new Set<string>()
  let searched = 0
  const search = (place: string, bytes: Buffer) => {
    searched += bytes.length
    for (let at = bytes.indexOf(tokenStart); at >= 0; at = bytes.indexOf(tokenStart, at + 1)) {
      const [found] = anyToken.exec(bytes.toString('latin1', at, at + longestToken)) ?? []
      if (found && issued.has(found)) leaks.add(place)
    }
  }

  for await (const file of glob('*.log', { cwd: folder })) search(`log ${file}`, await readFile(join(folder, file)))
  const databases = await connected(postgres.url, async (query) => {
    await query('checkpoint')
    return query("select datname as text from pg_database where datname like 't\\_%'")
  })
  for (const database of databases)
    await connected(postgres.urlOf(database), async (query) => {
      const tables =
        "select relname as text from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace"
      for (const table of await query(tables)) {
        const rows = await query(`select t::text as text from ${table} t`)
        search(`table ${table}`, Buffer.from(rows.join('\n')))
      }
    })
  for await (const file of glob('{base,pg_wal}/**/*', { cwd: postgres.dataDir, withFileTypes: true })) {
    if (!file.isFile()) continue
    // PostgreSQL may remove one while we look.
    const bytes = await readFile(join(file.parentPath, file.name)).catch(() => Buffer.alloc(0))
    search(`data file ${file.name}`, bytes)
  }
  console.log(
    `searched ${Math.round(searched / 1e6)} MB of logs, rows and data files for ${issued.size} issued tokens and session secrets: ${leaks.size} found`,
  )
  return [...leaks]
}

type Query = (text: string) => Promise<string[]>

async function connected<Result>(url: string, work: (query: Query) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(async (text) => (await client.query(text)).rows.map((row) => row.text))
  } finally {
    await client.end()
  }
}
