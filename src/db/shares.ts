import { createGate } from '../kernel/flow/gate.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { DbPool } from './pool.ts'

/**
 * The account's share of the pool. Transactions may wait for locks that the account itself holds, so one account gets
 * at most half of the connections for transactions. Some connections stay reserved for single statements, such as
 * authentication, and one for the publisher.
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
