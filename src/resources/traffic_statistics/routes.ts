import { route } from '../../http/route.ts'
import type { Static } from '../../http/wire.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { errorKinds, latencyOfBucket } from '../../kernel/edge/traffic.ts'
import { invalidField } from '../../kernel/errors.ts'
import { type IdPrefix, toId, type Uuid } from '../../kernel/ids.ts'
import { parseRfc3339 } from '../../kernel/time.ts'
import { cellsOf } from '../../operations/placement.ts'
import { type Sums, type TrafficGroup, TrafficQuery, TrafficStatistics } from './schema.ts'
import {
  type Asked,
  type CountRow,
  countGroups,
  countingSince,
  type Grouping,
  type LatencyRow,
  nodesWithLosses,
  type Step,
  trafficCounts,
  trafficLatencies,
} from './store.ts'

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs
const stepMs: Record<Step, number> = { minute: minuteMs, hour: 60 * minuteMs, day: dayMs }
/** Groups × steps; about 5 MB. */
const maxPoints = 20_000

export const trafficStatisticsRoutes = [
  route({
    operation: 'traffic_statistics.get',
    summary: 'Count requests, refusals and errors, and show latencies, by minute, hour or day',
    method: 'GET',
    path: '/traffic_statistics',
    query: TrafficQuery,
    success: 200,
    response: TrafficStatistics,
    access: 'anyone',
    heavy: 'report',
    async handle({ db, caller, query, clock, edges }) {
      const { limit = 10 } = query
      const asked = askedIn(query, clock(), limit)
      const counts = await trafficCounts(db, caller, asked, limit)
      const keys = [...new Set(counts.map(({ key }) => key))]
      const latencies = await trafficLatencies(db, caller, asked, keys)
      const cells = new Set((await cellsOf(db, caller.accountId)).map(({ name }) => name))
      const nodes = edges.all().filter(({ cell }) => cells.has(cell))
      return {
        body: {
          since: rfc3339(asked.since),
          until: rfc3339(asked.until),
          counted_since: await countingSince(db),
          nodes_not_counting: nodes.filter(({ live, countsTraffic }) => !live || !countsTraffic).length,
          nodes_with_losses: await nodesWithLosses(
            db,
            nodes.map(({ node }) => node),
            asked,
          ),
          groups: groupsOf(asked.by, counts, latencies),
          groups_total: await countGroups(db, caller, asked),
        },
      }
    },
  }),
]

function askedIn(
  { since: from, until: to, limit: _, ...query }: Static<typeof TrafficQuery>,
  now: number,
  limit: number,
): Asked {
  const until = (to && parseRfc3339(to)) || now
  const begin = (from && parseRfc3339(from)) || until - dayMs
  if (begin >= until) throw invalidField('since', 'must be before until')
  const { step, by = 'account' } = query
  const isRecent = begin >= now - dayMs - minuteMs
  if (step === 'minute' && !isRecent)
    throw invalidField('step', 'can be minute for the last 24 hours only. Choose hour or day, or a later since')
  const isByMinute = step === 'minute' || (step === undefined && isRecent)
  const length = step ? stepMs[step] : isByMinute ? minuteMs : stepMs.hour
  const since = begin - (begin % length)
  if (step && (until - since) / length > maxPoints / limit)
    throw invalidField(
      'step',
      `is too short: at most ${maxPoints} points can be read at once. Choose a longer one, a shorter time or a smaller limit`,
    )
  return { ...query, since, until, step, isByMinute, by }
}

/** `counts` starts with the sums of each group. */
function groupsOf(by: Grouping, counts: readonly CountRow[], latencies: readonly LatencyRow[]): TrafficGroup[] {
  const latencyOf = new Map(latencies.map((row) => [`${row.key} ${row.at}`, row]))
  const figuresOf = (row: CountRow) => toFigures(row, latencyOf.get(`${row.key} ${row.at}`))
  const groups = new Map<string, TrafficGroup>()
  for (const row of counts) {
    const group = groups.get(row.key)
    if (!group) groups.set(row.key, { ...placeOf(by, row.key), sums: figuresOf(row), points: [] })
    else if (row.at !== null) group.points.push({ at: row.at, ...figuresOf(row) })
  }
  return [...groups.values()].sort((a, b) => b.sums.requests - a.sums.requests)
}

function toFigures(
  { requests, refused, limited, ...row }: CountRow,
  latency: LatencyRow | undefined,
): Static<typeof Sums> {
  const ms = (bucket: number) => Math.round(latencyOfBucket(bucket) * 100) / 100
  return {
    ...{ requests, refused, limited },
    errors: Object.fromEntries(errorKinds.map((kind) => [kind, row[kind]])) as Static<typeof Sums>['errors'],
    latency_ms: latency ? { p50: ms(latency.p50), p95: ms(latency.p95), p99: ms(latency.p99) } : null,
  }
}

const none = '00000000-0000-0000-0000-000000000000'
const idOf = (prefix: string, uuid: string) =>
  uuid === none || prefix === '' ? null : toId(prefix as IdPrefix, uuid as Uuid)

function placeOf(by: Grouping, key: string): Omit<TrafficGroup, 'sums' | 'points'> {
  const [first = '', second = none, third = none] = key.split(' ')
  if (by === 'edge') return { edge_id: idOf(first, second) }
  if (by === 'route') return { edge_id: idOf(first, second), route_id: idOf('edghtsrt', third) }
  if (by === 'backend') return { backend_id: idOf(first, second) }
  return by === 'node' ? { node: key } : {}
}
