import { toId } from '../../kernel/ids.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import type { WebhookDestination } from './schema.ts'
import type { DestinationRow } from './store.ts'

/** Excludes the secret, which only create and rotate return. */
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

/** Fields that only people change, for ETags and audit events; deliveries do not change a destination. */
export const stableDestinationFields = ({
  failing_since,
  last_delivered_at,
  skipped_events,
  previous_secret_expires_at,
  ...stableFields
}: WebhookDestination) => stableFields
