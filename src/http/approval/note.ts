import type { Db } from '../../db/pool.ts'
import type { Origin } from '../../identity/origin.ts'
import type { Id } from '../../kernel/ids.ts'

/** Audits changes made without the approval that they need, in their own transaction. */
export type NoteBreakGlass = (
  tx: Db,
  origin: Origin,
  what: { readonly operation: string; readonly resource: Id; readonly reason: string },
) => Promise<void>
