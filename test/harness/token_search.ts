import { readFileSync } from 'node:fs'
import { glob, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import type { Postgres } from '../../dev/postgres.ts'

const tokenStart = 'gatehouse_'
const anyToken = /^gatehouse_(?:session_|invitation_)?[0-9A-Za-z]{49}/
const longestToken = 'gatehouse_invitation_'.length + 49

type Searched = {
  postgres: Postgres
  /** Prefix of this run's databases. */
  prefix: string
  /** Undefined where the files of PostgreSQL are not ours to read. */
  dataDir: string | undefined
  folder: string
}

/**
 * Where a token or session secret that was issued during the run can be found afterwards: in a log, in a row of a
 * database, or in the bytes of the data folder, write-ahead log included. Prints how much was searched.
 */
export async function searchForTokens({ postgres, prefix, dataDir, folder }: Searched): Promise<string[]> {
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
    if (dataDir) await query('checkpoint')
    return query<{ name: string }>(`select datname as name from pg_database where starts_with(datname, '${prefix}')`)
  })
  const waiting = databases.values()
  const searchRows = async () => {
    for (const { name } of waiting)
      await connected(postgres.urlOf(name), async (query) => {
        for (const { table } of await query<{ table: string }>(tablesWithRows)) {
          const [{ size, suspects } = { size: 0, suspects: '' }] = await query<{ size: number; suspects: string }>(
            rowsThatMayHaveOne(table),
          )
          searched += size
          search(`table ${table}`, Buffer.from(suspects))
        }
      })
  }
  const searchDataFiles = async () => {
    if (!dataDir) return
    const folders = (await readdir(join(dataDir, 'base'))).map((database) => join(dataDir, 'base', database))
    for (const place of [join(dataDir, 'pg_wal'), ...folders])
      for (const file of await readdir(place, { withFileTypes: true }))
        if (file.isFile()) search(`data file ${file.name}`, bytesOf(join(place, file.name)))
  }
  await Promise.all([searchDataFiles(), searchRows(), searchRows(), searchRows()])
  console.log(
    `searched ${Math.round(searched / 1e6)} MB of ${dataDir ? 'logs, rows and data files' : 'logs and rows'} for ${issued.size} issued tokens and session secrets: ${leaks.size} found`,
  )
  return [...leaks]
}

/**
 * PostgreSQL may remove one while we look. Synchronously: a run leaves some hundred thousand small files, and waiting for each
 * costs more than reading it.
 */
function bytesOf(file: string): Buffer {
  try {
    return readFileSync(file)
  } catch {
    return Buffer.alloc(0)
  }
}

const tablesWithRows = `
  select relname as table from pg_class
  where relkind = 'r' and relnamespace = 'public'::regnamespace and pg_relation_size(oid) > 0`

/** PostgreSQL looks first: most rows have nothing that even begins like a token, and need not come here. */
const rowsThatMayHaveOne = (table: string) => `
  select coalesce(sum(octet_length(line)), 0)::int as size,
         coalesce(string_agg(line, E'\\n') filter (where strpos(line, '${tokenStart}') > 0), '') as suspects
  from (select t::text as line from ${table} t) lines`

type Query = <Row extends object>(text: string) => Promise<Row[]>

async function connected<Result>(url: string, work: (query: Query) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(async <Row extends object>(text: string) => (await client.query<Row>(text)).rows)
  } finally {
    await client.end()
  }
}
