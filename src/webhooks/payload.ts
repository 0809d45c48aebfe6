import type { AuditEvent } from '../resources/audit_events/schema.ts'
import type { DestinationFormat } from '../resources/webhook_destinations/schema.ts'
import { messageOf } from './message.ts'

/** Body of a delivery. Repeated deliveries have the same `webhook-id`. */
export const payloadOf = (event: AuditEvent, format: DestinationFormat, page?: string): string =>
  JSON.stringify(
    format === 'slack'
      ? { text: escaped(textOf(event, page)) }
      : { type: event.operation, timestamp: event.created_at, data: event },
  )

function textOf(event: AuditEvent, page: string | undefined): string {
  const { title, lines } = messageOf(event, page)
  return [title, ...lines].join('\n')
}

/** Slack interprets only these three characters, such as in `<!channel>` in a tenant's name. */
const escaped = (text: string): string => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;')
