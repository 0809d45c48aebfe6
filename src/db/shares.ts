import { createGate } from '../kernel/flow/gate.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { DbPool } from './pool.ts'

/**
 * The pool as each account may use it. Transactions can wait for locks that the account itself holds, so those of one
 * account get at most half of what all of them get; and some connections are left for what needs only one statement, such as
 * finding out who is calling. One more belongs to the publisher.
 */
export function createShares(pool: DbPool, poolSize: number, waitMs: number): (accountId: Uuid) => DbPool {
  const reserved = Math.max(1, Math.floor(poolSize / 4)) + 1
  const total = Math.max(1, poolSize - reserved)
  const gate = createGate({ total, perOwner: Math.ceil(total / 2), maxWaitingPerOwner: 1_000, waitMs })
  return (accountId) => ({
    ...pool,
    async connect() {
      const end = await gate.enter(accountId)
      try {
        const client = await pool.connect()
        const { release } = client
        client.release = (error) => {
          end()
          release(error)
        }
        return client
      } catch (error) {
        end()
        throw error
      }
    },
  })
}
