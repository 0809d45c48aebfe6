import { newlyRefusedSince } from '../../access/evidence/address_outcomes.ts'
import type { Db } from '../../db/pool.ts'
import { kindOf, type RecordKind } from '../../distribution/records.ts'
import {
  type ErrorKind,
  errorKinds,
  figureOf,
  type JudgedFigure,
  type TrafficFigure,
} from '../../kernel/edge/traffic.ts'
import { toId } from '../../kernel/ids.ts'
import type { Answers, StoredRollout } from '../../operations/rollouts.ts'
import type { Recent, RecentTraffic } from '../nodes/recent_traffic.ts'
import type { Observed } from './signals.ts'

const backendKinds: ReadonlySet<string> = new Set<RecordKind>(['backend', 'weighted', 'failover', 'response'])
/** Kinds of records that decide which route a request takes. */
const requestKinds: ReadonlySet<string> = new Set<RecordKind>(['https', 'mutual_tls', 'route'])

/**
 * How long before the changes to compare with. The request rate changes faster than the failure rate, so it has a
 * shorter period.
 */
const [beforeMs, rateMs] = [10 * 60_000, 60_000]

/** Failures of clients are not ours, unless they gave up waiting. */
const failures: readonly (ErrorKind | JudgedFigure)[] = [...errorKinds.filter((kind) => kind !== 'client'), 'abandoned']
const noSuccesses: readonly (TrafficFigure | JudgedFigure)[] = ['refused', 'limited', ...errorKinds, 'rejected']

/** Compares the account's traffic on nodes that have the changes with earlier traffic and with other nodes. */
export async function observe(
  db: Db,
  traffic: Pick<RecentTraffic, 'ofAccount'>,
  rollout: StoredRollout,
  having: readonly string[],
  now: number,
): Promise<Observed> {
  const began = Date.parse(rollout.moved_at)
  const changes = { accountId: rollout.account_id, firstGeneration: rollout.since, keys: rollout.keys }
  const refused = await newlyRefusedSince(db, changes, having, began)
  return {
    refused: refused.map(({ target_id, is_route, node, addresses, let_in }) => ({
      ...{ node, addresses, letIn: let_in },
      target: toId(is_route ? 'edghtsrt' : 'edgtcp', target_id),
    })),
    answers: answersOf(traffic.ofAccount(rollout.cell, toId('ac', rollout.account_id)), rollout, having, [began, now]),
  }
}

/**
 * Counts for each edge and route that the changes touch. An HTTPS edge is also counted as a whole, because a new route
 * may take requests of another. A new name of an edge may take requests of an edge with a wildcard, and a route may
 * leave requests unmatched, so all HTTPS edges together are counted as well. Any of them may use a backend.
 */
export function answersOf(
  recent: readonly Recent[],
  { keys, account_id }: Pick<StoredRollout, 'keys' | 'account_id'>,
  having: readonly string[],
  [began, now]: readonly [number, number],
): Observed['answers'] {
  const ids = new Set(keys.map((key) => key.slice(key.indexOf('.') + 1)))
  const touchesBackend = keys.some((key) => backendKinds.has(kindOf(key)))
  const touchedEdges = new Set(
    recent.filter(({ edge, route }) => ids.has(edge ?? '') || ids.has(route ?? '')).map(({ edge }) => edge),
  )
  const targets = new Set<string>()
  for (const { edge, route } of recent) {
    if (edge === null || (!touchesBackend && !touchedEdges.has(edge))) continue
    targets.add(edge)
    if (route !== null && (touchesBackend || ids.has(route) || ids.has(edge))) targets.add(route)
  }
  const account = toId('ac', account_id)
  if (keys.some((key) => requestKinds.has(kindOf(key)))) targets.add(account)
  const has = new Set(having)
  return [...targets].map((target) => {
    const own = recent.filter(({ edge, route }) =>
      target === account ? route !== null || edge === null : edge === target || route === target,
    )
    const since = own.filter(({ at }) => at >= began)
    const before = own.filter(({ at, node }) => has.has(node) && at < began && at >= began - beforeMs)
    const here = since.filter(({ node }) => has.has(node))
    const minute = before.filter(({ at }) => at >= began - rateMs)
    return {
      node: [...new Set(here.map(({ node }) => node))].join(', '),
      target,
      ...{ before: sumOf(before), since: sumOf(here) },
      elsewhere: sumOf(since.filter(({ node }) => !has.has(node))),
      ...{ succeeded: successesIn(here), expected: (successesIn(minute) * (now - began)) / rateMs },
      lately: sumOf(here.filter(({ at }) => at >= (began + now) / 2)).requests,
    }
  })
}

function sumOf(counts: readonly Recent[]): Answers {
  const sum = { requests: 0, failed: 0, rejected: 0 }
  for (const { edge, counts: each } of counts) {
    sum.requests += figureOf(each, 'requests')
    for (const kind of failures) sum.failed += figureOf(each, kind)
    // Without a route, counts have no kind.
    sum.rejected += figureOf(each, edge === null ? 'client' : 'rejected')
  }
  return sum
}

const successesIn = (counts: readonly Recent[]): number =>
  counts.reduce(
    (sum, { counts: each }) =>
      noSuccesses.reduce((left, figure) => left - figureOf(each, figure), sum + figureOf(each, 'requests')),
    0,
  )
