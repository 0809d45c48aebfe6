import pg from 'pg'
import { readDatabaseUrl } from '../kernel/database_url.ts'
import { fromDatabase } from './failures.ts'
import { prepared, type Queryable } from './prepared_query.ts'
import { followPrimary } from './primary.ts'
import { openSharedConnections } from './shared_connections.ts'
import { type Sql, type SqlFragment, toStatement } from './sql.ts'

const { Pool, types } = pg

export type DbSettings = {
  /** May name several servers; connections then go to the one that accepts writes. */
  url: string
  poolSize: number
  /** How long a request waits for a free connection before it gets a 503. */
  connectTimeoutMs: number
  /**
   * The server cancels a statement after this time. The client gives up a second later if the server does not answer.
   * 0: never.
   */
  statementTimeoutMs: number
  /** The server ends a lock wait after this time. 0, the default: only the statement time-out applies. */
  lockTimeoutMs?: number
  /** Shown in pg_stat_activity. */
  applicationName?: string
}

export type Statement = { readonly text: string; readonly values?: readonly unknown[]; readonly name?: string }
type Rows = Pick<pg.QueryResult, 'rows'>
/** Runs queries: on the pool, or on the connection of a transaction. */
export type Db = {
  readonly query: (statement: Statement) => Promise<Rows>
  /** In a transaction: sends the statement together with the next one, or with `commit`. */
  readonly later?: (statement: Sql) => void
}
export type DbPool = Db & {
  /**
   * The transaction that contains everything, including nested transactions; see `together` and `rehearse` in
   * transaction.ts.
   */
  readonly enclosing?: Db
  /** A faster path to single rows by key; see shared_connections.ts. */
  readonly lookUps: Db
  readonly connect: () => Promise<pg.PoolClient>
  readonly end: () => Promise<void>
  /** Number of unanswered look-ups. */
  readonly sharedStatements: () => number
  readonly connections: () => { total: number; idle: number; waiting: number }
}

// Timestamps stay strings: converting each to a Date and back took a third of the time of a list.
types.setTypeParser(types.builtins.TIMESTAMPTZ, toRfc3339)
// Counters and generations stay far below 2^53.
types.setTypeParser(types.builtins.INT8, Number)

/**
 * The @types of pg name only element types. Most scopes and ranges of keys are plain, so they skip the parser for
 * quoted elements.
 */
const arrayTypes = { text: 1009, cidr: 651 }
const parseArray = types.getTypeParser(arrayTypes.text)
for (const type of Object.values(arrayTypes))
  types.setTypeParser(type, (text) => {
    if (text === '{}') return []
    return /^\{[^"\\{}]+\}$/.test(text) && !text.includes('NULL') ? text.slice(1, -1).split(',') : parseArray(text)
  })

/** `2026-11-15 02:00:00.12+00` → `2026-11-15T02:00:00.120Z`. PostgreSQL drops trailing zeros; the sessions are in UTC. */
export function toRfc3339(text: string): string {
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${text.slice(20, -3).slice(0, 3).padEnd(3, '0')}Z`
}

/**
 * A prepared statement keeps its plan until statistics change. If it was planned for an empty table, it would keep
 * scanning the table as it grows. All our queries can use an index.
 */
const preferIndexes = '-c enable_seqscan=off'
/**
 * If a table has to be scanned, `enable_seqscan=off` makes the estimated cost huge, and PostgreSQL JIT-compiles the
 * statement: seconds of CPU time for a millisecond of work. Distribution packages include the compiler; our test
 * PostgreSQL does not.
 */
const neverCompile = '-c jit=off'

/**
 * PostgreSQL reports a canceled wait for the standby only as a warning (prepared_query.ts), which a setting of the role
 * must not hide.
 */
const tellWarnings = '-c client_min_messages=notice'

/**
 * How long an unused connection stays open. Opening one costs as much as a hundred statements, because of its
 * authentication and its plans, and periodic work would otherwise open one each time.
 */
const idleTimeoutMs = 60_000

/** Connections for look-ups, in addition to the pool. */
export const sharedConnections = 2

export function openPool(settings: DbSettings, onError: (error: Error) => void): DbPool {
  const { url, servers, mustWrite } = readDatabaseUrl(settings.url)
  const client = {
    connectionString: url,
    connectionTimeoutMillis: settings.connectTimeoutMs,
    statement_timeout: settings.statementTimeoutMs,
    query_timeout: settings.statementTimeoutMs && settings.statementTimeoutMs + 1_000,
    idle_in_transaction_session_timeout: settings.statementTimeoutMs * 2,
    application_name: settings.applicationName ?? 'gatehouse',
    lock_timeout: settings.lockTimeoutMs,
    options: `-c timezone=UTC -c datestyle=ISO ${preferIndexes} ${neverCompile} ${tellWarnings}`,
    keepAlive: true,
  }
  const primary = mustWrite && servers.length > 0 ? followPrimary(servers, client, onError) : undefined
  const Client = primary?.Client ?? pg.Client
  const pool = new Pool({ ...client, max: settings.poolSize, idleTimeoutMillis: idleTimeoutMs, Client })
  // The pool replaces an idle connection that breaks, but without a listener the error would end the process. pg
  // attaches the connection to the error, including the key that cancels its queries, which must not be logged.
  pool.on('error', (error: Error & { client?: unknown }) => {
    delete error.client
    onError(error)
  })
  const shared = openSharedConnections(sharedConnections, client, Client, onError)
  return {
    query: (statement) => queryOn(pool, statement),
    lookUps: { query: (statement) => shared.query(statement as Sql).catch(fromDatabase) },
    connect: () => pool.connect().catch(fromDatabase),
    end: async () => {
      primary?.end()
      await Promise.all([pool.end(), shared.end()])
    },
    sharedStatements: shared.pending,
    connections: () => ({ total: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }),
  }
}

/** Runs a statement on a dedicated connection. */
export const queryOn = (client: Queryable, statement: Statement): Promise<Rows> =>
  (statement.name ? prepared(client, statement as Sql) : client.query(statement as pg.QueryConfig)).catch(fromDatabase)

export async function many<Row>(db: Db, fragment: SqlFragment): Promise<Row[]> {
  return (await db.query(toStatement(fragment))).rows as Row[]
}

export async function maybeOne<Row>(db: Db, fragment: SqlFragment): Promise<Row | undefined> {
  return (await many<Row>(db, fragment))[0]
}

export async function one<Row>(db: Db, fragment: SqlFragment): Promise<Row> {
  const row = await maybeOne<Row>(db, fragment)
  if (row === undefined)
    throw new Error(`This statement always returns a row, and returned none: ${toStatement(fragment).text}`)
  return row
}

export async function run(db: Db, fragment: SqlFragment): Promise<void> {
  await many(db, fragment)
}

/**
 * For a statement whose result is not needed. In a transaction it is sent with the next statement or with `commit`,
 * which saves a round trip. Its failure fails the transaction; use `run` if a constraint decides the response.
 */
export async function later(db: Db, fragment: SqlFragment): Promise<void> {
  if (db.later) db.later(toStatement(fragment))
  else await run(db, fragment)
}
