import type { Db } from '../db/pool.ts'
import type { RecordKey } from '../distribution/records.ts'
import type { Origin } from '../identity/origin.ts'
import type { Id } from '../kernel/ids.ts'
import { recordChange } from './audit.ts'
import { writeOutbox } from './outbox.ts'

export type Change = {
  resourceId: Id
  before: object | null
  after: object | null
  /** Records to send to edge nodes. */
  records?: readonly RecordKey[] | undefined
  /** Set if the change only denies this range. */
  denies?: string | undefined
}

/**
 * Writes the audit event of a change and, if it concerns edges, an outbox row, in the transaction of the change. Writes
 * neither if nothing changed. Resolves to the generation of the outbox row, if any.
 */
export async function record(tx: Db, origin: Origin, change: Change): Promise<number | undefined> {
  const changed = await recordChange(tx, origin, change)
  if (!changed || !change.records?.length) return undefined
  const { operationId, urgent } = origin
  if (urgent !== undefined) {
    const after = { operation: origin.operation, reason: urgent }
    await recordChange(tx, { ...origin, operation: 'rollouts.urgent' }, { ...change, before: null, after })
  }
  const asked = { operationId, urgent, denies: change.denies }
  return writeOutbox(tx, origin.accountId, change.records, undefined, undefined, asked)
}
