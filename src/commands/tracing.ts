import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import { version } from '../config/version.ts'
import type { RequestSpan } from '../http/request_span.ts'

export type Tracing = { note?: (span: RequestSpan) => void; stop: () => Promise<void> }

/** Off unless configured; its code is loaded only then. */
export async function openTracing(config: Config, log: Pick<Logger, 'warn'>): Promise<Tracing> {
  const { GATEHOUSE_TRACES_URL: url, GATEHOUSE_TRACES_SAMPLE: sample } = config
  if (url === '') return { stop: async () => {} }
  const { createTracing } = await import('../tracing/otlp.ts')
  return createTracing({
    ...{ url, sample, version },
    warn: (reason) => log.warn({ reason }, 'traces do not reach their collector; not logged again for a minute'),
  })
}
