import type { Db } from '../db/pool.ts'
import { type HealthRequest, loadFacts } from '../health/facts.ts'
import { statusForAccount } from '../health/fleet.ts'
import { backendStatuses, certificateStatuses, webhookStatuses } from '../health/shown.ts'
import { type Code, counted, type Status } from '../health/status.ts'
import { rfc3339 } from '../kernel/clock.ts'
import type { BackendId } from '../kernel/edge/backends.ts'
import { isId, toId, type Uuid } from '../kernel/ids.ts'
import type { RuleRow } from '../resources/alerts/rule_store.ts'
import type { Condition, WatchedId } from '../resources/alerts/schema.ts'
import {
  countFailedAndAll,
  haltedRollouts,
  newlyRefusedSince,
  usedBackends,
} from '../resources/alerts/watched_store.ts'
import { keptNodes } from '../resources/edge_nodes/store.ts'
import { listTlsCertificates } from '../resources/tls_certificates/store.ts'
import { toTlsCertificate } from '../resources/tls_certificates/view.ts'
import { listDestinations } from '../resources/webhook_destinations/store.ts'

/** Whether a condition holds; undefined if unknown. */
export type Observation = { readonly holds: boolean | undefined; readonly reason: string }
/** Keyed by subject: a resource id, the name of a node or cell, or '' for the account. */
export type Observations = ReadonlyMap<string, Observation>
export type Observing = HealthRequest & { readonly db: Db }
type Observe = (request: Observing, rule: RuleRow) => Promise<Observations>

const pageSize = 100
const noUri = (path: string): string => path

/** Alerts use the same computation of health as the API: if it is unknown there, it is unknown here. */
const observed = ({ state, reason }: Status, holds: boolean): Observation => ({
  holds: state === 'unknown' ? undefined : holds,
  reason,
})

/** Reads each page's states with one statement. */
async function throughPages<Row extends { id: Uuid }>(
  next: (before: Uuid | undefined) => Promise<Row[]>,
  take: (rows: Row[]) => Promise<void>,
): Promise<void> {
  let before: Uuid | undefined
  for (;;) {
    const rows = await next(before)
    if (rows.length > 0) await take(rows)
    before = rows.at(-1)?.id
    if (rows.length < pageSize) return
  }
}

const observe: Record<Condition, Observe> = {
  async backend_down(request, { resource_id }) {
    const found = new Map<string, Observation>()
    await throughPages(
      (before) => usedBackends(request.db, request.caller, { before, limit: pageSize, only: resource_id }),
      async (rows) => {
        const shown = rows.map(({ id, prefix }) => ({ id: toId(prefix, id) as BackendId }))
        const statusOf = await backendStatuses(request, shown)
        for (const each of shown) {
          const { status } = statusOf(each)
          found.set(each.id, observed(status, status.state === 'down'))
        }
      },
    )
    return found
  },

  async node_behind(request) {
    const { fleet } = await loadFacts(request, {})
    const found = new Map(
      fleet.nodes.map((node) => {
        const status = statusForAccount(node, fleet)
        return [node.node, observed(status, status.state !== 'up')]
      }),
    )
    // A node that was silent for a day drops out of the list; that must not resolve its alert.
    for (const name of await keptNodes(request.db, request.caller))
      if (!found.has(name)) found.set(name, { holds: undefined, reason: 'It has not reported for more than a day.' })
    return found
  },

  async certificate_failing(request, { resource_id }) {
    const found = new Map<string, Observation>()
    await throughPages(
      (before) =>
        listTlsCertificates(request.db, request.caller, {
          limit: pageSize - 1,
          ...(before && { before_id: toId('cert', before) }),
        }),
      async (rows) => {
        const shown = rows
          .map((row) => toTlsCertificate(row, noUri))
          .filter(({ id, in_use_by }) => (resource_id === null ? in_use_by.length > 0 : id === resource_id))
        const statusOf = await certificateStatuses(request, shown)
        for (const each of shown) {
          const { status } = statusOf(each)
          found.set(each.id, observed(status, status.state !== 'up' && !ofNodes.includes(status.code)))
        }
      },
    )
    return found
  },

  async errors(request, { resource_id, percent, window_minutes }) {
    const { db, caller, clock, edges } = request
    const [share, minutes] = [percent ?? 5, window_minutes ?? 5]
    const { failed, all } = await countFailedAndAll(db, caller, {
      ...placeOf(resource_id),
      ...minutesUntil(clock(), minutes),
    })
    const about = resource_id ?? ''
    const reported = 100 * (failed / Math.max(1, all))
    const text = `${reported.toFixed(1)} % of ${counted(all, 'request')} failed within ${counted(minutes, 'minute')}.`
    if (all >= leastRequests) return new Map([[about, { holds: reported > share, reason: text }]])
    const { fleet } = await loadFacts(request, {})
    // A low number of requests means something only if requests are counted.
    const isCounted =
      edges.isConnected() &&
      fleet.nodes.length > 0 &&
      edges.all().every(({ node, live, countsTraffic }) => isOther(fleet.nodes, node) || (live && countsTraffic))
    return new Map([
      [
        about,
        isCounted
          ? { holds: false, reason: text }
          : { holds: undefined, reason: 'Not every edge node reports how many requests it had.' },
      ],
    ])
  },

  async newly_refused({ db, caller, clock }) {
    const since = clock() - refusedWithinMinutes * 60_000
    const count = await newlyRefusedSince(db, caller, since)
    const reason = `${counted(count, 'address', 'addresses')} that ${count === 1 ? 'was' : 'were'} let in within the last seven days ${count === 1 ? 'was' : 'were'} refused within the last ${refusedWithinMinutes} minutes.`
    return new Map([['', { holds: count > 0, reason }]])
  },

  async webhook_failing(request, { resource_id }) {
    const found = new Map<string, Observation>()
    await throughPages(
      (before) =>
        listDestinations(request.db, request.caller, {
          limit: pageSize - 1,
          ...(before && { before_id: toId('whd', before) }),
        }),
      async (rows) => {
        const statusOf = await webhookStatuses(request, rows)
        for (const row of rows) {
          const id = toId('whd', row.id)
          if (resource_id !== null && id !== resource_id) continue
          const { status } = statusOf(row)
          // A disabled destination was disabled on purpose, and an empty queue is not a failure.
          const isFailing = status.state === 'down' && status.code !== 'disabled'
          found.set(id, { holds: isFailing, reason: status.reason })
        }
      },
    )
    return found
  },

  async rollout_halted({ db, caller }) {
    const halted = await haltedRollouts(db, caller)
    return new Map(
      halted.map(({ cell, reason }) => [
        cell,
        {
          holds: true,
          reason: `The changes of this account were halted in cell ${cell}${reason ? `: ${reason}` : '.'}`,
        },
      ]),
    )
  },
}

/** Faults of nodes, which have a condition of their own; they are not faults of the certificate. */
const ofNodes: readonly Code[] = ['no_nodes', 'node_away', 'node_behind', 'storage_fault']

/** One failure among three requests is no evidence. */
const leastRequests = 20
const refusedWithinMinutes = 15

const isOther = (own: readonly { node: string }[], name: string): boolean => own.every(({ node }) => node !== name)

/** Whole minutes, including the current one. */
function minutesUntil(now: number, minutes: number) {
  return { since: rfc3339(now - (now % 60_000) - (minutes - 1) * 60_000), until: rfc3339(now + 60_000) }
}

const placeOf = (id: WatchedId | null): { edge?: WatchedId; route?: WatchedId } =>
  id === null ? {} : isId('edghtsrt', id) ? { route: id } : { edge: id }

export const observeRule: Observe = (request, rule) => observe[rule.kind](request, rule)
