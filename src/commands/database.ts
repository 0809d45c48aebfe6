import type { Config } from '../config.ts'
import { type DbPool, openPool } from '../db/pool.ts'

export const openDatabase = (
  config: Config,
  onError: (error: Error) => void,
  statementTimeoutMs = config.GATEHOUSE_DATABASE_TIMEOUT_MS,
): DbPool =>
  openPool(
    {
      url: config.GATEHOUSE_DATABASE_URL,
      poolSize: config.GATEHOUSE_DATABASE_POOL_SIZE,
      connectTimeoutMs: config.GATEHOUSE_DATABASE_TIMEOUT_MS,
      statementTimeoutMs,
    },
    onError,
  )

/** For commands that run once and exit. */
export async function withDatabase<Result>(
  config: Config,
  work: (db: DbPool) => Promise<Result>,
  statementTimeoutMs?: number,
): Promise<Result> {
  const db = openDatabase(config, () => {}, statementTimeoutMs)
  try {
    return await work(db)
  } finally {
    await db.end()
  }
}
