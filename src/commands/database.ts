import type { Config } from '../config/config.ts'
import { type DbPool, type DbSettings, openPool } from '../db/pool.ts'

export const openDatabase = (
  config: Config,
  onError: (error: Error) => void,
  overrides: Partial<DbSettings> = {},
): DbPool =>
  openPool(
    {
      url: config.GATEHOUSE_DATABASE_URL,
      poolSize: config.GATEHOUSE_DATABASE_POOL_SIZE,
      connectTimeoutMs: config.GATEHOUSE_DATABASE_TIMEOUT_MS,
      statementTimeoutMs: config.GATEHOUSE_DATABASE_TIMEOUT_MS,
      ...overrides,
    },
    onError,
  )

/** For commands that run once and exit. */
export async function withDatabase<Result>(
  config: Config,
  work: (db: DbPool) => Promise<Result>,
  overrides?: Partial<DbSettings>,
): Promise<Result> {
  const db = openDatabase(config, () => {}, overrides)
  try {
    return await work(db)
  } finally {
    await db.end()
  }
}
