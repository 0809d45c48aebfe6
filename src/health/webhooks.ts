import { down, type Status, unknown, up } from './status.ts'

export type WebhookFacts = {
  readonly enabled: boolean
  readonly disabled_reason: string | null
  readonly failing_since: string | null
  readonly last_delivered_at: string | null
}

export function webhookStatus({ enabled, disabled_reason, failing_since, last_delivered_at }: WebhookFacts): Status {
  if (!enabled && disabled_reason === 'gone')
    return down('receiver_gone', 'The receiver answered 410, so the service has disabled it.', failing_since)
  if (!enabled && disabled_reason !== null)
    return down(
      'disabled_after_failures',
      'No event could be delivered for days, so the service has disabled it.',
      failing_since,
    )
  if (!enabled) return down('disabled', 'It is disabled. Events wait until it is enabled.')
  if (failing_since) return down('delivery_failing', 'The last attempts to deliver an event failed.', failing_since)
  if (last_delivered_at === null) return unknown('nothing_sent_yet', 'No event has been sent to it yet.')
  return up('The last event was delivered.', null)
}
