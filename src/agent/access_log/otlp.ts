import { type Sink, Undeliverable } from './destination.ts'
import type { FieldValue, LogRecord } from './fields.ts'

const timeoutMs = 10_000
/** An OpenTelemetry severity. */
const info = { severityNumber: 9, severityText: 'INFO' }

/** The protocol's JSON form: https://opentelemetry.io/docs/specs/otlp/#otlphttp. */
export function otlpSink(url: string, node: string, version: string): Sink {
  const attribute = ([key, value]: [string, FieldValue]) => ({
    key,
    value: typeof value === 'number' ? { intValue: String(value) } : { stringValue: value },
  })
  const resource = {
    attributes: Object.entries({ 'service.name': 'gatehouse-edge', 'service.instance.id': node }).map(attribute),
  }
  const logRecord = (line: string) => {
    const { timestamp, trace_id: traceId, ...attributes } = JSON.parse(line) as LogRecord
    return {
      timeUnixNano: `${Date.parse(String(timestamp))}000000`,
      ...info,
      eventName: 'gatehouse.request',
      ...(traceId !== undefined && { traceId }),
      attributes: Object.entries(attributes).map(attribute),
    }
  }
  return {
    name: 'otlp',
    batch: 500,
    async write(lines) {
      const scope = { name: 'gatehouse', version }
      const body = { resourceLogs: [{ resource, scopeLogs: [{ scope, logRecords: lines.map(logRecord) }] }] }
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(timeoutMs),
        redirect: 'error',
      })
      await response.arrayBuffer()
      if (response.ok) return
      const message = `the OTLP endpoint answered ${response.status}`
      // The OTLP specification forbids retries for every other status.
      throw [429, 502, 503, 504].includes(response.status) ? new Error(message) : new Undeliverable(message)
    },
    close: async () => {},
  }
}
