import { DiagLogLevel, diag, ROOT_CONTEXT, SpanKind, SpanStatusCode, TraceFlags, trace } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { RequestSpan } from '../http/request_span.ts'

type Options = {
  readonly url: string
  /** Sampling rate, from 0 to 1, of calls without a sampling decision of their own. */
  readonly sample: number
  readonly version: string
  readonly warn: (message: string) => void
}

/** Limits warnings, so that an unreachable collector does not fill the log. */
const warnEveryMs = 60_000
const exportTimeoutMs = 5_000

/**
 * Sends a span for each API call to an OpenTelemetry collector. Imported only if configured, because its packages cost
 * memory and start time. Drops spans that the collector does not accept in time.
 */
export function createTracing({ url, sample, version, warn }: Options) {
  warnOfFailures(warn)
  const exporter = new OTLPTraceExporter({ url, timeoutMillis: exportTimeoutMs })
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': 'gatehouse', 'service.version': version }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(sample) }),
    spanProcessors: [new BatchSpanProcessor({ exporter, scheduledDelayMillis: 1_000 })],
  })
  const tracer = provider.getTracer('gatehouse', version)
  return {
    note({ operation, operationId, method, path, status, account, endedAt, duration, traceparent }: RequestSpan): void {
      const attributes = {
        'http.request.method': method,
        'http.response.status_code': status,
        ...(path !== null && { 'http.route': path }),
        'gatehouse.operation': operation,
        'gatehouse.operation.id': operationId,
        ...(account !== undefined && { 'gatehouse.account': account }),
      }
      const options = { kind: SpanKind.SERVER, startTime: endedAt - duration, attributes }
      const span = tracer.startSpan(operation, options, contextOf(traceparent))
      if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
      span.end(endedAt)
    },
    /** Sends pending spans, if the collector accepts them in time. */
    stop: (): Promise<void> => provider.shutdown().catch((error: Error) => warn(error.message)),
  }
}

/** W3C Trace Context. An invalid header starts a new trace, as if there were none. */
const pattern = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/
function contextOf(traceparent = '') {
  const [all = '', version, traceId, spanId, flags = '0'] = pattern.exec(traceparent) ?? []
  if (!traceId || !spanId || (version === '00' && all.length !== traceparent.length)) return ROOT_CONTEXT
  const traceFlags = Number.parseInt(flags, 16) & TraceFlags.SAMPLED
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true })
}

function warnOfFailures(warn: (message: string) => void): void {
  let warnedAt = 0
  const note = (message: string) => {
    if (Date.now() - warnedAt < warnEveryMs) return
    warnedAt = Date.now()
    warn(message)
  }
  const ignore = () => {}
  diag.setLogger({ error: note, warn: note, info: ignore, debug: ignore, verbose: ignore }, DiagLogLevel.WARN)
}
