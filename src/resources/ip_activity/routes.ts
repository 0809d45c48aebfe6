import { Type } from 'typebox'
import { type RestrictionType, restrictionTypes } from '../../access/policies.ts'
import { route } from '../../http/route.ts'
import { Closed, Ref, RefOrNull, type Static, Timestamp } from '../../http/wire.ts'
import { hourOf, rfc3339 } from '../../kernel/clock.ts'
import { refsOf } from '../edges/view.ts'
import { activityByEdge, activityByHour, type EdgeActivityRow } from './store.ts'

const hourMs = 60 * 60 * 1_000
const maxEdges = 100

const Counts = Closed(
  {
    refused: Type.Integer({ description: 'Number of refused calls, connections and requests.' }),
    warned: Type.Integer({
      description: 'Number of warnings. A request that two restrictions warn about counts twice.',
    }),
  },
  { title: 'IpActivityCounts' },
)
const ByType = Object.fromEntries(restrictionTypes.map((type) => [type, Counts])) as Record<
  RestrictionType,
  typeof Counts
>
const Hour = Closed({ hour: Timestamp, ...ByType }, { title: 'IpActivityHour' })
const EdgeActivity = Closed(
  {
    target: Ref,
    edge: Type.Unsafe<Static<typeof RefOrNull>>({ ...RefOrNull, description: 'For a route: its HTTPS edge.' }),
    refused: Type.Integer(),
    refused_by_module: Type.Integer({ description: 'Number of those refused by its own ip_restriction module.' }),
    warned: Type.Integer(),
    last_at: Timestamp,
  },
  { title: 'IpActivityEdge' },
)

const toEdgeActivity = ({ id, kind, parent_id, ...counts }: EdgeActivityRow, uri: (path: string) => string) => ({
  ...refsOf({ id, kind, parent_id }, uri),
  ...counts,
})

/** Recent activity of IP restrictions and modules, for an overview. Contains no addresses, so members may see it. */
export const ipActivityRoutes = [
  route({
    operation: 'ip_activity.get',
    summary: 'Count refusals and warnings by hour and traffic type, and by edge and route',
    method: 'GET',
    path: '/ip_activity',
    query: Closed({
      hours: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: 720,
          description: 'Number of hours, including the current one. Default: 24.',
        }),
      ),
    }),
    success: 200,
    response: Closed(
      {
        hours: Type.Array(Hour, { description: 'Every hour, oldest first.' }),
        total: Closed(ByType, { title: 'IpActivityTotal' }),
        edges: Type.Array(EdgeActivity, {
          description: `The ${maxEdges} TCP edges and routes with the most refusals, in descending order.`,
        }),
      },
      { title: 'IpActivity' },
    ),
    access: 'anyone',
    heavy: 'report',
    async handle({ db, caller, query: { hours: count = 24 }, clock, uri }) {
      const now = clock()
      const since = hourOf(now) - (count - 1) * hourMs
      const none = () =>
        Object.fromEntries(restrictionTypes.map((type) => [type, { refused: 0, warned: 0 }])) as Record<
          RestrictionType,
          Static<typeof Counts>
        >
      const hours = Array.from({ length: count }, (_, i) => ({ hour: rfc3339(since + i * hourMs), ...none() }))
      const byHour = new Map(hours.map((hour) => [hour.hour, hour]))
      const total = none()
      for (const { hour, type, refused, warned } of await activityByHour(db, caller, since)) {
        // A node whose clock runs ahead may report future hours.
        const counts = byHour.get(hour)?.[type]
        if (!counts) continue
        Object.assign(counts, { refused, warned })
        total[type].refused += refused
        total[type].warned += warned
      }
      const edges = await activityByEdge(db, caller, since, maxEdges)
      return { body: { hours, total, edges: edges.map((row) => toEdgeActivity(row, uri)) } }
    },
  }),
]
