import { toId } from '../../kernel/ids.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import type { WebhookDestination } from './schema.ts'
import type { DestinationRow } from './store.ts'

/** A destination as everyone sees it: without its secret, which only the responses to creation and rotation add. */
export function toDestination(row: DestinationRow, uri: (path: string) => string): WebhookDestination {
  const id = toId('whd', row.id)
  return {
    id,
    uri: uri(`/webhook_destinations/${id}`),
    ...shownAnnotations(row),
    created_at: row.created_at,
    url: row.url,
    format: row.format,
    operations: [...row.operations],
    enabled: row.enabled,
    disabled_reason: row.disabled_reason,
    secret: null,
    previous_secret_expires_at: row.previous_secret_expires_at,
    failing_since: row.failing_since,
    last_delivered_at: row.last_delivered_at,
    skipped_events: row.skipped,
  }
}

/** What of a destination only people change, for its ETag and its audit events: sending is no change of it. */
export const stableDestinationFields = ({
  failing_since,
  last_delivered_at,
  skipped_events,
  previous_secret_expires_at,
  ...stableFields
}: WebhookDestination) => stableFields
