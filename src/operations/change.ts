import type { Db } from '../db/pool.ts'
import type { RecordKey } from '../distribution/records.ts'
import type { Handling } from '../http/route.ts'
import type { Id } from '../kernel/ids.ts'
import { recordChange } from './audit.ts'
import { writeOutbox } from './outbox.ts'

type Fields = Record<string, unknown>
export type Change = {
  resourceId: Id
  before: Fields | null
  after: Fields | null
  /** The records that edge nodes must be sent because of it. */
  records?: readonly RecordKey[]
}

/**
 * What every change leaves behind, in its own transaction: an audit event and, where edges are concerned, an outbox row
 * with a generation. A change that changed nothing leaves nothing.
 */
export async function record(
  tx: Db,
  request: Pick<Handling<object, unknown, unknown>, 'origin' | 'respond'>,
  change: Change,
): Promise<void> {
  const changed = await recordChange(tx, request.origin, change)
  if (!changed || !change.records?.length) return
  const generation = await writeOutbox(tx, request.origin.accountId, change.records)
  request.respond('Service-Generation', String(generation))
}
