import { setting } from './setting.ts'
import { wholeNumber } from './values.ts'

export const alertSettings = {
  GATEHOUSE_ALERT_INTERVAL_SECONDS: setting({
    default: '15',
    help: 'Pause between two evaluations of the alert rules of an account.',
    parse: wholeNumber(1, 300),
  }),
  GATEHOUSE_ALERT_RESOLVE_SECONDS: setting({
    default: '300',
    help: 'How long the condition of an alert must not hold, without a break, before it is resolved. A condition that comes and goes sends nothing in between.',
    parse: wholeNumber(1, 86_400),
  }),
}
