import type { DbPool, Statement } from '../../src/db/pool.ts'
import { transaction } from '../../src/db/transaction.ts'

/**
 * What PostgreSQL says of how it runs a statement. It may read whole tables here, as it may not on our connections (pool.ts):
 * there, a statement without an index of its own would read a whole index instead, unnoticed.
 */
export const explain = (db: DbPool, { text, values }: Statement, options = ''): Promise<Record<string, unknown>[]> =>
  transaction(db, async (tx) => {
    await tx.query({ text: 'set local enable_seqscan = on' })
    const { rows } = await tx.query({ text: `explain ${options && `(${options})`} ${text}`, ...(values && { values }) })
    return rows
  })

export const planOf = async (db: DbPool, statement: Statement, options?: string): Promise<string> =>
  (await explain(db, statement, options)).map((row) => row['QUERY PLAN']).join('\n')
