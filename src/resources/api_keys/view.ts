import { toId } from '../../kernel/ids.ts'
import { shownAnnotations } from '../annotations.ts'
import { ownerId } from '../principals/view.ts'
import type { ApiKey } from './schema.ts'
import type { ApiKeyRow } from './store.ts'

/** A key as everyone sees it: without its token, which only the response to creation adds. */
export function toApiKey(row: ApiKeyRow, uri: (path: string) => string): ApiKey {
  const id = toId('ak', row.id)
  return {
    id,
    uri: uri(`/api_keys/${id}`),
    ...shownAnnotations(row),
    created_at: row.created_at,
    token: null,
    owner_id: ownerId(row.owner_kind, row.owner_id),
  }
}
