import { glob, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import type { LocalPostgres } from '../../dev/postgres.ts'

const anyToken = /gatehouse_(?:session_)?[0-9A-Za-z]{49}/g

/**
 * Where a token, or the secret of a session, that was issued during the run is found afterwards: in any log, in any row of any database, or in
 * the bytes of the data folder, write-ahead log included. Says on standard output how much was searched.
 */
export async function searchForTokens(postgres: LocalPostgres, folder: string): Promise<string[]> {
  const noted = await readFile(join(folder, 'tokens'), 'latin1').catch(() => '')
  const issued = new Set(noted.split('\n').filter(Boolean))
  const leaks: string[] = []
  let bytes = 0
  const search = (place: string, text: string) => {
    bytes += text.length
    for (const [found] of text.matchAll(anyToken)) {
      if (issued.has(found)) leaks.push(place)
    }
  }

  for await (const file of glob('*.log', { cwd: folder }))
    search(`log ${file}`, await readFile(join(folder, file), 'latin1'))
  for (const database of await namesIn(
    postgres.url,
    "select datname as name from pg_database where datname like 't\\_%'",
  )) {
    const url = postgres.urlOf(database)
    for (const table of await namesIn(
      url,
      "select relname as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace",
    )) {
      search(`table ${table}`, (await namesIn(url, `select t::text as name from ${table} t`)).join('\n'))
    }
  }
  await namesIn(postgres.url, 'checkpoint')
  for await (const file of glob('{base,pg_wal}/**/*', { cwd: postgres.dataDir, withFileTypes: true })) {
    if (file.isFile())
      search(`data file ${file.name}`, await readFile(join(file.parentPath, file.name), 'latin1').catch(() => ''))
  }
  console.log(
    `searched ${Math.round(bytes / 1e6)} MB of logs, rows and data files for ${issued.size} issued tokens and session secrets: ${leaks.length} found`,
  )
  return [...new Set(leaks)]
}

async function namesIn(url: string, query: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(query)).rows.map(({ name }) => name)
  } finally {
    await client.end()
  }
}
