import { fromDatabase, isAnswer, OutcomeUnknown } from './failures.ts'
import { type Db, type DbPool, queryOn } from './pool.ts'

// PostgreSQL answers COMMIT with success and only a notice when the wait for a synchronous standby is canceled.
const canceledStandbyWait = '01000'

type Work<Result> = (tx: Db) => Promise<Result>

/** Runs `work` in one transaction: everything in it is committed, or nothing. */
export const transaction = <Result>(pool: DbPool, work: Work<Result>): Promise<Result> => within(pool, 'begin', work)

/** Runs `work`, which only reads, on the database as it was at one moment. */
export const snapshot = <Result>(pool: DbPool, work: Work<Result>): Promise<Result> =>
  within(pool, 'begin isolation level repeatable read, read only', work)

const within = <Result>(pool: DbPool, begin: string, work: Work<Result>): Promise<Result> =>
  session(pool, (_, inTransaction) => inTransaction(begin, work))

/** Runs `work` on one connection of its own, for what belongs to a connection: a lock, or several transactions under it. */
export async function session<Result>(
  pool: DbPool,
  work: (db: Db, inTransaction: <R>(begin: string, work: Work<R>) => Promise<R>) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect()
  let broken: Error | undefined
  const onBroken = (error: Error) => {
    broken = error
  }
  client.on('error', onBroken)
  const db: Db = { query: (statement) => queryOn(client, statement) }
  try {
    return await work(db, async (begin, inner) => {
      try {
        await client.query(begin).catch(fromDatabase)
        const result = await inner(db)
        await commit(client)
        return result
      } catch (error) {
        if (error instanceof OutcomeUnknown) broken = error
        else await client.query('rollback').catch(onBroken)
        throw error
      }
    })
  } finally {
    client.off('error', onBroken)
    client.release(broken)
  }
}

async function commit(client: Awaited<ReturnType<DbPool['connect']>>): Promise<void> {
  let standbyNotice: string | undefined
  const onNotice = (notice: { code?: string; message?: string }) => {
    if (notice.code === canceledStandbyWait) standbyNotice = notice.message
  }
  client.on('notice', onNotice)
  try {
    await client.query('commit')
  } catch (error) {
    // A deferred constraint or a serialization failure is a clear no. Only silence leaves the outcome open.
    if (isAnswer(error)) fromDatabase(error)
    throw new OutcomeUnknown('COMMIT was not answered', { cause: error })
  } finally {
    client.off('notice', onNotice)
  }
  if (standbyNotice) throw new OutcomeUnknown(`COMMIT was answered without its standby: ${standbyNotice}`)
}
