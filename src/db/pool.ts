import pg from 'pg'
import { readDatabaseUrl } from '../kernel/database_url.ts'
import { fromDatabase } from './failures.ts'
import { prepared, type Queryable } from './prepared_query.ts'
import { followPrimary } from './primary.ts'
import { openSharedConnections } from './shared_connections.ts'
import { type Sql, type SqlFragment, toStatement } from './sql.ts'

const { Pool, types } = pg

export type DbSettings = {
  /** It may name several servers: then connections lead to the one that accepts changes. */
  url: string
  poolSize: number
  /** How long a request waits for a free connection before it is refused with 503. */
  connectTimeoutMs: number
  /** The server ends a statement after this time; the client gives up a second later, if the server does not answer. 0: never. */
  statementTimeoutMs: number
  /** The server ends a wait for a lock after this time. 0, the default: the statement's time-out decides. */
  lockTimeoutMs?: number
  /** As pg_stat_activity shows it. */
  applicationName?: string
}

export type Statement = { readonly text: string; readonly values?: readonly unknown[]; readonly name?: string }
type Rows = Pick<pg.QueryResult, 'rows'>
/** Where a query can go: the pool, or the connection that holds a transaction. */
export type Db = {
  readonly query: (statement: Statement) => Promise<Rows>
  /** In a transaction: sends it with the next statement, or with `commit`. */
  readonly later?: (statement: Sql) => void
}
export type DbPool = Db & {
  /** The transaction that everything belongs to, transactions included; see `together` and `rehearse` in transaction.ts. */
  readonly enclosing?: Db
  /** A shorter way to a single row by its key; see shared_connections.ts. */
  readonly lookUps: Db
  readonly connect: () => Promise<pg.PoolClient>
  readonly end: () => Promise<void>
  /** Look-ups that are not answered. */
  readonly sharedStatements: () => number
  readonly connections: () => { total: number; idle: number; waiting: number }
}

// As strings straight from the wire: making a Date of each and a string of that again took a third of a list's time.
types.setTypeParser(types.builtins.TIMESTAMPTZ, toRfc3339)
// Counters and generations stay far below 2^53.
types.setTypeParser(types.builtins.INT8, Number)

/** pg's types name only the elements of these. Most scopes and ranges of keys are plain, and need no parser for what is quoted. */
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
 * A prepared statement keeps its plan until statistics change. One that was planned for an empty table would read all of it,
 * row by row, while the table fills up; ours all have an index to go by.
 */
const preferIndexes = '-c enable_seqscan=off'
/**
 * Where a table can only be read whole, that setting makes the estimated cost enormous, and PostgreSQL compiles the statement
 * first: seconds of processor time for one that takes a millisecond. Packages of distributions do; the PostgreSQL of our
 * tests has no compiler.
 */
const neverCompile = '-c jit=off'

/** A wait for the standby that was canceled shows only as a warning: prepared_query.ts. A role's own setting must not hide it. */
const tellWarnings = '-c client_min_messages=notice'

/**
 * How long a connection is kept without use. Opening one costs as much as a hundred statements, with its password and its plans,
 * and what serve does now and then would open one each time.
 */
const idleTimeoutMs = 60_000

/** How many connections look-ups share, beside those of the pool. */
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
  // An idle connection that breaks is replaced by the pool; without a listener it would end the process. The driver hangs
  // the whole connection on the error, with the key that cancels its queries: that is not for the log.
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

/** Runs a statement on a connection that is ours alone. */
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
 * A statement of which nothing is needed but that it succeeds. In a transaction it is sent with the next one, or with
 * `commit`, and costs no round trip. Its failure is that of the transaction: where a constraint decides what to answer, use
 * `run`.
 */
export async function later(db: Db, fragment: SqlFragment): Promise<void> {
  if (db.later) db.later(toStatement(fragment))
  else await run(db, fragment)
}
