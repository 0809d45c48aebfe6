import type { NoteBreakGlass } from '../http/approval/note.ts'
import { breakGlassOperation } from '../kernel/approval.ts'
import { recordChange } from './audit.ts'

export const noteBreakGlass: NoteBreakGlass = async (tx, origin, { operation, resource, reason }) => {
  const after = { break_glass: operation, reason }
  await recordChange(tx, { ...origin, operation: breakGlassOperation }, { resourceId: resource, before: null, after })
}
