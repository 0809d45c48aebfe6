import type { AuditEvent } from '../resources/audit_events/schema.ts'
import type { DestinationFormat } from '../resources/webhook_destinations/schema.ts'
import { messageOf } from './message.ts'

/** The body of a delivery. A repeated one has the same `webhook-id`. */
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

/** Only these three characters mean something in a message, such as `<!channel>` in a name that a tenant has chosen. */
const escaped = (text: string): string => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;')
