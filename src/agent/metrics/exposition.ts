import { latencyBounds, statusClasses, type Tally } from './tally.ts'
import type { Traffic } from './traffic.ts'

type Render = (name: string, labels: string, tally: Tally) => string
type Families = Readonly<Record<string, Render>>

/** Omits classes that never occurred: most routes have one or two. */
const byStatus: Render = (name, labels, { statuses }) =>
  statusClasses.reduce(
    (lines, status, at) => (statuses[at] ? `${lines}${name}{${labels},status="${status}"} ${statuses[at]}\n` : lines),
    '',
  )
/** Exported even while zero: an alert on an increase needs the starting value. */
const figure =
  (read: (tally: Tally) => number): Render =>
  (name, labels, tally) =>
    `${name}{${labels}} ${read(tally)}\n`
const refused = figure((tally) => tally.refused)
const limited = figure((tally) => tally.limited)
const upstreamErrors = figure((tally) => tally.upstreamErrors)
const connections = figure((tally) => tally.connections)
const bytes: Render = (name, labels, { bytesIn, bytesOut }) =>
  `${name}{${labels},direction="in"} ${bytesIn}\n${name}{${labels},direction="out"} ${bytesOut}\n`
const seconds: Render = (name, labels, { latencies, milliseconds }) => {
  let below = 0
  let lines = ''
  for (const [at, bound] of [...latencyBounds, '+Inf'].entries()) {
    below += latencies[at] ?? 0
    lines += `${name}_bucket{${labels},le="${bound}"} ${below}\n`
  }
  return `${lines}${name}_sum{${labels}} ${milliseconds / 1_000}\n${name}_count{${labels}} ${below}\n`
}

const ofRoutes: Families = {
  gatehouse_edge_route_requests_total: byStatus,
  gatehouse_edge_route_seconds: seconds,
  gatehouse_edge_route_bytes_total: bytes,
  gatehouse_edge_route_refused_total: refused,
  gatehouse_edge_route_limited_total: limited,
  gatehouse_edge_route_upstream_errors_total: upstreamErrors,
}
const ofTcpEdges: Families = {
  gatehouse_edge_tcp_connections_total: connections,
  gatehouse_edge_tcp_bytes_total: bytes,
  gatehouse_edge_tcp_refused_total: refused,
  gatehouse_edge_tcp_limited_total: limited,
  gatehouse_edge_tcp_upstream_errors_total: upstreamErrors,
}
const ofAccounts: Families = {
  gatehouse_edge_account_requests_total: byStatus,
  gatehouse_edge_account_seconds: seconds,
  gatehouse_edge_account_connections_total: connections,
  gatehouse_edge_account_bytes_total: bytes,
  gatehouse_edge_account_refused_total: refused,
  gatehouse_edge_account_limited_total: limited,
  gatehouse_edge_account_upstream_errors_total: upstreamErrors,
}

/** Targets rendered per slice: rendering takes time that enforcement needs too. */
const perSlice = 500

/** Prometheus' text format, in slices. Ids contain no character that a label would have to escape. */
export function* exposition(traffic: Pick<Traffic, 'read'>, now: number): Generator<string> {
  const { routes, tcpEdges, accounts } = traffic.read(now)
  const labeled = (labels: Record<string, string | null>, tally: Tally) => {
    const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value}"`)
    return { labels: pairs.join(','), tally }
  }
  yield* families(
    ofRoutes,
    routes.map(({ account, edge, route, tally }) => labeled({ account, edge, route }, tally)),
  )
  yield* families(
    ofTcpEdges,
    tcpEdges.map(({ account, edge, tally }) => labeled({ account, edge }, tally)),
  )
  yield* families(
    ofAccounts,
    accounts.map(({ account, tally }) => labeled({ account }, tally)),
  )
}

function* families(all: Families, labeled: readonly { labels: string; tally: Tally }[]): Generator<string> {
  if (labeled.length === 0) return
  for (const [name, render] of Object.entries(all)) {
    yield `# TYPE ${name} ${name.endsWith('_total') ? 'counter' : 'histogram'}\n`
    for (let from = 0; from < labeled.length; from += perSlice) {
      let lines = ''
      for (const { labels, tally } of labeled.slice(from, from + perSlice)) lines += render(name, labels, tally)
      yield lines
    }
  }
}
