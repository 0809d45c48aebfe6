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
  /** Share of the calls that do not say whether they are traced, from 0 to 1. */
  readonly sample: number
  readonly version: string
  readonly warn: (message: string) => void
}

/** A collector that is away must not fill the log. */
const warnEveryMs = 60_000
const exportTimeoutMs = 5_000

/**
 * Sends a span for each call of the API to an OpenTelemetry collector. Loaded only when that is configured: the packages
 * behind it cost a process memory and a longer start. Spans that a collector does not take in time are dropped.
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
    /** What was not sent yet is, for as long as the collector takes it. */
    stop: (): Promise<void> => provider.shutdown().catch((error: Error) => warn(error.message)),
  }
}

/** W3C Trace Context. What is not valid begins a trace of its own, as if nothing had been sent. */
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
