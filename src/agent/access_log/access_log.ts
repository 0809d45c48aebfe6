import type { EdgeRequest } from '../../distribution/requests.ts'
import type { Log } from '../../kernel/log.ts'
import type { RequestLine } from '../requests/feed.ts'
import { createDestination, type Sink } from './destination.ts'
import { recordOf, truncated } from './fields.ts'

export type AccessLogOptions = {
  /** Share of allowed requests, from 0 to 1. All others are always logged. */
  readonly sample: number
  readonly isTruncated: boolean
}

/** Writes requests to all sinks. Each sink has its own buffer, so that a slow one does not delay the others. */
export function createAccessLog(sinks: readonly Sink[], { sample, isTruncated }: AccessLogOptions, log: Log) {
  const destinations = sinks.map((sink) => createDestination(sink, log))
  return {
    isOn: destinations.length > 0,
    note(request: EdgeRequest, { process, sequence }: RequestLine): void {
      if (request.outcome === 'allowed' && !isSampled(request.id, sample)) return
      const source = isTruncated ? truncated(request.source) : request.source
      const line = JSON.stringify(recordOf({ ...request, source, process, sequence }))
      for (const destination of destinations) destination.add(request.account ?? '', line)
    },
    metrics: (): Record<string, number> =>
      Object.fromEntries(
        destinations.flatMap(({ name, counts }) => [
          [`gatehouse_edge_access_log_lines_total{destination="${name}"}`, counts().written],
          [`gatehouse_edge_access_log_dropped_total{destination="${name}"}`, counts().dropped],
        ]),
      ),
    close: async () => void (await Promise.all(destinations.map((destination) => destination.close()))),
  }
}

/** Uses the random end of the id, so that every process with the same sample makes the same choice. */
const isSampled = (id: string, sample: number): boolean =>
  sample >= 1 || Number.parseInt(id.slice(-8), 16) < sample * 2 ** 32
