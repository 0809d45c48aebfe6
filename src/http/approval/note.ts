import type { Db } from '../../db/pool.ts'
import type { Origin } from '../../identity/origin.ts'
import type { Id } from '../../kernel/ids.ts'

/** Writes the audit event of changes that are made without the approval that they need, in their transaction. */
export type NoteBreakGlass = (
  tx: Db,
  origin: Origin,
  what: { readonly operation: string; readonly resource: Id; readonly reason: string },
) => Promise<void>
