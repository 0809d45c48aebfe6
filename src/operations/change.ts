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
  /** The records that edge nodes must be sent because of it. */
  records?: readonly RecordKey[] | undefined
  /** It does nothing but refuse this range. */
  denies?: string | undefined
}

/**
 * What every change leaves behind, in its own transaction: an audit event and, where edges are concerned, an outbox row.
 * A change that changed nothing leaves nothing. Resolves to the generation of the outbox row, if there is one.
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
