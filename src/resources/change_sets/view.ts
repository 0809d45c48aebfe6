import { hash } from 'node:crypto'
import { toId } from '../../kernel/ids.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import type { ChangeSet } from './schema.ts'
import type { ChangeSetRow } from './store.ts'

export function toSummary(row: ChangeSetRow, uri: (path: string) => string) {
  const id = toId('chs', row.id)
  return {
    id,
    uri: uri(`/change_sets/${id}`),
    created_at: row.created_at,
    ...shownAnnotations(row),
    state: row.state,
    operations: [...row.operations],
    author_id: row.author_id,
    applied_at: row.applied_at,
    applied_by_id: row.applied_by,
    confirm_by: row.confirm_by,
    confirmed_at: row.confirmed_at,
    confirmed_by_id: row.confirmed_by,
    revert_failure: row.revert_failure,
    reverts_id: row.reverts_id,
    approved_at: row.approved_at,
    approved_by_id: row.approved_by,
    withdrawn_at: row.withdrawn_at,
    withdrawn_by_id: row.withdrawn_by,
    generation: row.generation,
  }
}

export const toChangeSet = (row: ChangeSetRow, uri: (path: string) => string): ChangeSet => ({
  ...toSummary(row, uri),
  content_sha256: contentSha256(row),
  changes: [...row.changes],
  applied_resources: row.applied_resources && [...row.applied_resources],
})

/** Covers everything that determines the effect of applying it, and its description. */
export const contentSha256 = ({ description, metadata, changes, base }: ChangeSetRow): string =>
  hash('sha256', JSON.stringify([description, metadata, changes, base]))

/** Each change is audited separately, so the change set's own event contains only a hash of them. */
export const stableChangeSetFields = ({ changes, ...fields }: ChangeSet): object => ({
  ...fields,
  changes_sha256: hash('sha256', JSON.stringify(changes)),
})
