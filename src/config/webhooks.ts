import { setting } from './setting.ts'
import { networks, seconds, wholeNumber } from './values.ts'

/** Networks that webhooks may reach, and the retry schedule. */
export const webhookSettings = {
  GATEHOUSE_WEBHOOK_ALLOW: setting({
    default: '',
    help: 'Networks, comma-separated, that webhooks may be sent to although they are denied by default, such as 10.0.0.0/8. Allowing a loopback address also allows http:// there.',
    parse: networks,
  }),
  GATEHOUSE_WEBHOOK_DENY: setting({
    default: '',
    help: 'Networks, comma-separated, that webhooks must not be sent to. Takes precedence over the allowed networks.',
    parse: networks,
  }),
  GATEHOUSE_WEBHOOK_RETRY_SECONDS: setting({
    default: '5,30,120,600,1800,3600,10800,21600,43200,86400',
    help: 'Pauses after failed attempts to send a webhook, comma-separated. After the last one the event is dead.',
    parse: seconds,
  }),
  GATEHOUSE_WEBHOOK_RETENTION_DAYS: setting({
    default: '30',
    help: 'How old an event may be to be sent to a webhook, and how long deliveries are listed.',
    parse: wholeNumber(1, 3_650),
  }),
  GATEHOUSE_WEBHOOK_DISABLE_DAYS: setting({
    default: '5',
    help: 'Days of failed deliveries without a success after which a webhook destination is disabled.',
    parse: wholeNumber(1, 3_650),
  }),
}
