import type { DbPool } from '../db/pool.ts'
import { transaction } from '../db/transaction.ts'
import { newId, toId } from '../kernel/ids.ts'
import { record } from '../operations/change.ts'
import { findDestination, updateDestination } from '../resources/webhook_destinations/store.ts'
import { stableDestinationFields, toDestination } from '../resources/webhook_destinations/view.ts'
import type { Lease } from './queue.ts'

/** Writes an audit event, as any change does, which the account's other destinations receive. */
export const disable = (
  db: DbPool,
  { accountId, destinationId }: Lease,
  reason: 'gone' | 'failing',
  uri: (path: string) => string,
): Promise<void> =>
  transaction(db, async (tx) => {
    const id = toId('whd', destinationId)
    const before = await findDestination(tx, { accountId }, id, true)
    if (!before?.enabled) return
    const after = { ...before, enabled: false, disabled_reason: reason }
    await updateDestination(tx, { accountId }, destinationId, after)
    await record(
      tx,
      { accountId, operation: 'webhook_destinations.disable', operationId: newId('op') },
      {
        resourceId: id,
        before: stableDestinationFields(toDestination(before, uri)),
        after: stableDestinationFields(toDestination(after, uri)),
      },
    )
  })
