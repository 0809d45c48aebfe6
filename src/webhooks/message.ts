import type { AuditEvent } from '../resources/audit_events/schema.ts'

/** An event as text for people, in a chat or an e-mail. */
export type Message = { readonly title: string; readonly lines: readonly string[] }

type Fields = Readonly<Record<string, unknown>>
const textIn = (fields: Fields, name: string): string | undefined => {
  const value = fields[name]
  return typeof value === 'string' ? value : undefined
}

const verbs: Readonly<Record<string, string>> = {
  'alerts.fire': 'Firing',
  'alerts.resolve': 'Resolved',
  'alert_rules.test': 'Test',
}

/** `page`: URL of the alerts page. Without it, the message contains the API path. */
export function messageOf({ operation, resource_id, created_at, after }: AuditEvent, page?: string): Message {
  const verb = verbs[operation]
  const fields = (after ?? {}) as Fields
  if (verb === undefined) return { title: `${operation} ${resource_id}`, lines: [`At ${created_at}.`] }
  const about = textIn(fields, 'resource_id')
  const title = `${verb}: ${textIn(fields, 'kind') ?? 'alert'}${about ? ` ${about}` : ''}`
  const reason =
    operation === 'alert_rules.test'
      ? 'Nothing is wrong. Alerts of this rule would be sent here.'
      : textIn(fields, 'reason')
  const since = textIn(fields, 'since')
  return {
    title,
    lines: [
      ...(reason ? [reason] : []),
      ...(since ? [`Since ${since}.`] : []),
      ...[textIn(fields, 'description') ?? []].flat(),
      ...[page ?? textIn(fields, 'uri') ?? []].flat(),
    ],
  }
}
