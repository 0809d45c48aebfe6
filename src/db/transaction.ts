import pg from 'pg'
import { fromDatabase, isAnswer, OutcomeUnknown } from './failures.ts'
import { type Db, type DbPool, later, many, queryOn, type Statement } from './pool.ts'
import { PreparedQuery, type Results, type Rows, submit } from './prepared_query.ts'
import { type Sql, type SqlFragment, toStatement } from './sql.ts'

type Work<Result> = (tx: Db) => Promise<Result>

/**
 * Runs `work` in one transaction. `begin` is sent with the first statement, and `commit` with final statements that are
 * not awaited (`later` in pool.ts), which saves at least two round trips.
 */
export const transaction = <Result>(pool: DbPool, work: Work<Result>): Promise<Result> => within(pool, 'begin', work)

/** Runs read-only `work` on one snapshot of the database. */
export const snapshot = <Result>(pool: DbPool, work: Work<Result>): Promise<Result> =>
  within(pool, 'begin isolation level repeatable read, read only', work)

const within = <Result>(pool: DbPool, begin: string, work: Work<Result>): Promise<Result> =>
  pool.enclosing ? work(pool.enclosing) : session(pool, (_, inTransaction) => inTransaction(begin, work))

type OnPool<Result> = (db: DbPool) => Promise<Result>

/**
 * Runs `work` with a pool that is a single transaction; nested transactions join it. All its changes for edges share
 * one generation (migration 0074). With `late`, take_generation() assigns it after all changes, so that a long
 * transaction blocks no others (migration 0131).
 */
export const together = <Result>(
  pool: DbPool,
  work: OnPool<Result>,
  generation: 'early' | 'late' = 'early',
): Promise<Result> =>
  pool.enclosing
    ? work(pool)
    : onOneConnection(pool, async (client, onBroken) => {
        const setting = { early: 'on', late: 'late' }[generation]
        const open = openTransaction(client, 'begin', `set local gatehouse.one_generation = '${setting}'`)
        try {
          const result = await work(enclosedBy(pool, open))
          if (generation === 'late') open.later(plain('select take_generation()'))
          await open.commit()
          return result
        } catch (error) {
          if (error instanceof OutcomeUnknown) onBroken(error)
          else await open.rollback().catch(onBroken)
          throw error
        }
      })

/** Like `together`, but rolls back. The setting makes the functions of migration 0068 consume no sequence numbers. */
export const rehearse = <Result>(pool: DbPool, work: OnPool<Result>): Promise<Result> =>
  pool.enclosing
    ? rehearseWithin(pool, pool.enclosing, work)
    : onOneConnection(pool, async (client, onBroken) => {
        const open = openTransaction(client, 'begin', "set local gatehouse.dry_run = '1'")
        try {
          return await checked(enclosedBy(pool, open), work)
        } finally {
          await open.rollback().catch(onBroken)
        }
      })

async function rehearseWithin<Result>(pool: DbPool, enclosing: Db, work: OnPool<Result>): Promise<Result> {
  await enclosing.query(plain('savepoint rehearsal'))
  await enclosing.query(plain("set local gatehouse.dry_run = '1'"))
  try {
    return await checked(pool, work)
  } finally {
    await enclosing.query(plain('rollback to savepoint rehearsal'))
  }
}

/** Also checks deferred constraints, as `commit` would. */
async function checked<Result>(db: DbPool, work: OnPool<Result>): Promise<Result> {
  const result = await work(db)
  await db.query(plain('set constraints all immediate'))
  return result
}

/** A pool backed only by the connection of a transaction. */
function enclosedBy(pool: DbPool, open: ReturnType<typeof openTransaction>): DbPool {
  let first: unknown
  const query = (statement: Statement) =>
    open.query(statement).catch((error) => {
      // After a failure PostgreSQL rejects all further statements without the reason, so keep the first error.
      first ??= error
      throw first
    })
  const enclosing = { query, later: open.later }
  const connect = () => Promise.reject(new Error('there is only the connection of the enclosing transaction'))
  return { ...pool, query, connect, lookUps: enclosing, enclosing }
}

/** Runs `work` on a dedicated connection, for session state: a lock, or several transactions under it. */
export const session = <Result>(
  pool: DbPool,
  work: (db: Db, inTransaction: <R>(begin: string, work: Work<R>) => Promise<R>) => Promise<Result>,
): Promise<Result> =>
  onOneConnection(pool, (client, onBroken) =>
    work({ query: (statement) => queryOn(client, statement) }, async (begin, inner) => {
      const open = openTransaction(client, begin)
      try {
        const result = await inner(open)
        await open.commit()
        return result
      } catch (error) {
        if (error instanceof OutcomeUnknown) onBroken(error)
        else await open.rollback().catch(onBroken)
        throw error
      }
    }),
  )

/**
 * Makes a change in one round trip: PostgreSQL runs statements that arrive together as one transaction and commits
 * before it answers. Resolves to the rows that `change` returned. `checks` run before and after it and return no rows.
 */
export const changeAtOnce = <Row>(pool: DbPool, change: SqlFragment, checks: Checks = {}): Promise<Row[]> =>
  pool.enclosing ? enclosedChange(pool.enclosing, change, checks) : sentAtOnce(pool, change, checks)

type Checks = { readonly before?: SqlFragment; readonly after?: SqlFragment }

async function enclosedChange<Row>(tx: Db, change: SqlFragment, { before, after }: Checks): Promise<Row[]> {
  if (before) await later(tx, before)
  const rows = await many<Row>(tx, change)
  if (after) await later(tx, after)
  return rows
}

const sentAtOnce = <Row>(pool: DbPool, change: SqlFragment, checks: Checks): Promise<Row[]> =>
  onOneConnection(pool, async (client, onBroken) => {
    const [before, after] = [checks.before, checks.after].map((check) => (check ? [toStatement(check)] : []))
    const query = new PreparedQuery([...(before ?? []), toStatement(change), ...(after ?? [])], client)
    try {
      const { results } = await committed(client, query, 0)
      return results[before?.length ?? 0] as Row[]
    } catch (error) {
      if (error instanceof OutcomeUnknown) onBroken(error)
      throw error
    }
  })

async function onOneConnection<Result>(
  pool: DbPool,
  work: (client: pg.PoolClient, onBroken: (error: Error) => void) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect()
  let broken: Error | undefined
  const onBroken = (error: Error) => {
    broken = error
  }
  client.on('error', onBroken)
  try {
    return await work(client, onBroken)
  } finally {
    client.off('error', onBroken)
    client.release(broken)
  }
}

const plain = (text: string): Sql => ({ text, name: text, values: [] })

/** A transaction on a connection. Statements in `waiting` are sent with the next one, in one write. */
function openTransaction(client: pg.PoolClient, ...begin: readonly string[]) {
  let waiting = begin.map(plain)
  let isBegun = false
  const batch = (...last: Sql[]): PreparedQuery => {
    const query = new PreparedQuery([...waiting, ...last], client)
    waiting = []
    isBegun = true
    return query
  }
  return {
    async query(statement: Statement): Promise<Rows> {
      if (statement.name) return submit(client, batch(statement as Sql)).catch(fromDatabase)
      if (waiting.length) await submit(client, batch()).catch(fromDatabase)
      return queryOn(client, statement)
    },
    later(statement: Sql): void {
      waiting.push(statement)
    },
    async commit(): Promise<void> {
      if (isBegun || waiting.length > begin.length) await commit(client, batch(plain('commit')))
    },
    async rollback(): Promise<void> {
      waiting = []
      if (isBegun) await client.query('rollback')
    },
  }
}

/** The last statement of the query is `commit`. */
async function commit(client: pg.PoolClient, query: PreparedQuery): Promise<void> {
  await committed(client, query, 1)
  // The caller caught a statement's error and continued. PostgreSQL rolled everything back, and reports that only in
  // this tag.
  if (query.lastTag !== 'COMMIT') throw new Error(`COMMIT was answered with ${query.lastTag}`)
}

/** Ends a transaction. `left`: number of statements that are still incomplete while it commits. */
async function committed(client: pg.PoolClient, query: PreparedQuery, left: 0 | 1): Promise<Results> {
  try {
    return await submit(client, query)
  } catch (error) {
    if (error instanceof OutcomeUnknown) throw error
    // An error from PostgreSQL means that nothing was committed: a deferred constraint, a serialization failure, or a
    // failed statement before `commit`. Only a lost connection leaves the outcome unknown.
    const isBeforeCommit = error instanceof pg.DatabaseError && query.remaining > left
    if (isBeforeCommit || isAnswer(error)) fromDatabase(error)
    throw new OutcomeUnknown('COMMIT was not answered', { cause: error })
  }
}
