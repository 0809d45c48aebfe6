import { createAccessLog } from '../../agent/access_log/access_log.ts'
import type { Sink } from '../../agent/access_log/destination.ts'
import { createDropNotice } from '../../agent/access_log/drop_notice.ts'
import { fileSink, type Rotation } from '../../agent/access_log/file.ts'
import { otlpSink } from '../../agent/access_log/otlp.ts'
import { stdoutSink } from '../../agent/access_log/stdout.ts'
import { syslogOverTcp, syslogOverUdp } from '../../agent/access_log/syslog.ts'
import type { Files } from '../../agent/disk/files.ts'
import { receiveEvents } from '../../agent/haproxy/lines/events.ts'
import { createLuaFaults } from '../../agent/haproxy/lines/lua_faults.ts'
import type { ProxySettings } from '../../agent/haproxy/settings.ts'
import { exposition } from '../../agent/metrics/exposition.ts'
import { createTraffic } from '../../agent/metrics/traffic.ts'
import type { Allowed } from '../../agent/reports/allowed.ts'
import type { createHits } from '../../agent/reports/hits.ts'
import { createRequestFeed } from '../../agent/requests/feed.ts'
import { createGenerations } from '../../agent/requests/generations.ts'
import { verdictsOf } from '../../agent/requests/hits.ts'
import { createFailureWindow } from '../../agent/upstreams/failure_window.ts'
import type { createFailures } from '../../agent/upstreams/failures.ts'
import type { EdgeConfig } from '../../config/config.ts'
import type { LogDestination } from '../../config/values.ts'
import { version } from '../../config/version.ts'
import { requestOutcomes } from '../../distribution/requests.ts'
import type { Log } from '../../kernel/log.ts'
import { createSeenRequests } from './seen_requests.ts'
import { openTrafficCounting } from './traffic_counting.ts'

type Around = {
  settings: ProxySettings
  log: Log
  hits: ReturnType<typeof createHits>
  allowed: Allowed
  failures: ReturnType<typeof createFailures>
  files: Files
  onServerChange: (native: string) => void
}

/** Opens everything that the node derives from its requests. */
export async function openRequests(
  config: EdgeConfig,
  { settings, log, hits, allowed, failures, files, onServerChange }: Around,
) {
  const feed = createRequestFeed()
  const generations = createGenerations()
  const isToNote = createFailureWindow()
  feed.subscribeToLines((_request, line) => {
    for (const verdict of verdictsOf(line)) hits.add({ ...verdict, count: 1, lastAt: new Date().toISOString() })
    if (line.failure && isToNote(line.failure, Date.now())) void failures.note(line.failure)
  })
  feed.subscribe((request) => allowed.note(request, Date.now()))
  const accessLog = openAccessLog(config, log)
  if (accessLog.isOn) feed.subscribe(accessLog.note)
  const traffic = createTraffic(config.GATEHOUSE_EDGE_METRICS_ROUTES)
  feed.subscribe((request) => traffic.add(request, Date.now()))
  const trafficCounting = await openTrafficCounting(config, log, files)
  feed.subscribe((_request, line) => trafficCounting.traffic?.add(line, Date.now()))
  const luaFaults = createLuaFaults(log, Date.now)
  const notice = createDropNotice(log, 'records of requests')
  const onDrop = (lines: number) => {
    notice.note(lines)
    trafficCounting.traffic?.lose(lines)
  }
  const reader = await receiveEvents(
    settings,
    { node: config.GATEHOUSE_EDGE_NODE, generationAt: generations.at },
    { feed, onServerChange, onLuaFault: luaFaults.note, onDrop },
  )
  const seen = createSeenRequests(config.GATEHOUSE_EDGE_NODE, feed)
  return {
    feed,
    seen,
    trafficCounting,
    applied: (generation: number) => generations.note(generation, Date.now()),
    metrics: (): Record<string, number> => ({
      ...Object.fromEntries(
        requestOutcomes.map((outcome) => [
          `gatehouse_edge_requests_total{outcome="${outcome}"}`,
          feed.counts()[outcome],
        ]),
      ),
      gatehouse_edge_requests_dropped_total: reader.dropped(),
      gatehouse_edge_requests_unreadable_total: reader.unreadable(),
      gatehouse_edge_requests_without_route_metrics_total: traffic.withoutPlace(),
      gatehouse_edge_lua_errors_total: luaFaults.count(),
      gatehouse_edge_traffic_counts_waiting: trafficCounting.traffic?.waiting() ?? 0,
      ...seen.metrics(),
      ...accessLog.metrics(),
    }),
    /** By route, TCP edge and account. */
    trafficMetrics: () => exposition(traffic, Date.now()),
    async close() {
      await reader.close()
      notice.stop()
      await accessLog.close()
      await trafficCounting.save()
    },
  }
}
export type Requests = Awaited<ReturnType<typeof openRequests>>

function openAccessLog(config: EdgeConfig, log: Log) {
  const rotation = {
    maxBytes: config.GATEHOUSE_EDGE_ACCESS_LOG_MAX_MB * 1_000_000,
    files: config.GATEHOUSE_EDGE_ACCESS_LOG_FILES,
  }
  const options = {
    sample: config.GATEHOUSE_EDGE_ACCESS_LOG_SAMPLE,
    isTruncated: config.GATEHOUSE_EDGE_ACCESS_LOG_ADDRESSES === 'truncated',
  }
  const sinks = config.GATEHOUSE_EDGE_ACCESS_LOG.map((to) => sinkOf(to, rotation, config.GATEHOUSE_EDGE_NODE))
  return createAccessLog(sinks, options, log)
}

function sinkOf(to: LogDestination, rotation: Rotation, node: string): Sink {
  switch (to.kind) {
    case 'stdout':
      return stdoutSink()
    case 'file':
      return fileSink(to.path, rotation)
    case 'syslog':
      return (to.transport === 'udp' ? syslogOverUdp : syslogOverTcp)(to.host, to.port, node)
    case 'otlp':
      return otlpSink(to.url, node, version)
  }
}
