import { setting } from './setting.ts'
import { optionalHttpUrl, percentage } from './values.ts'

/** Where to send spans, and what share of calls to sample. */
export const traceSettings = {
  GATEHOUSE_TRACES_URL: setting({
    default: '',
    help: 'URL of an OTLP/HTTP traces endpoint, such as http://collector:4318/v1/traces. Empty: no traces.',
    parse: optionalHttpUrl,
  }),
  GATEHOUSE_TRACES_SAMPLE: setting({
    default: '100%',
    help: "Share of API calls to trace when the client's traceparent does not decide.",
    parse: percentage,
  }),
}
