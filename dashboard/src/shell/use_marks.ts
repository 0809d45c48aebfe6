import { useQuery } from '@tanstack/react-query'
import { isExpected } from '../../../src/kernel/expected_states.ts'
import type { Shapes } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import type { Health } from '../ui/state.tsx'
import { isFaulty, markOf, rankOf, type Status, stateOf } from '../ui/status.tsx'

export type PageMark = { health: Health; meaning: string; count?: string }
type Read = { data?: readonly { status?: Status }[] | undefined; isError: boolean }

/** Problems by page. Unreadable data is marked as unknown, because no mark would mean no problem. */
export function useMarks(isAdmin: boolean): Map<string, PageMark> {
  const nodes = useQuery({ ...queries.nodes(), enabled: isAdmin })
  const refused = useQuery({ ...queries.newlyRefused(), enabled: isAdmin }).data?.newly_refused_addresses
  const reads: readonly [path: string, one: string, many: string, ...Read[]][] = [
    ['/edges', 'edge', 'edges', useQuery(queries.httpsEdges()), useQuery(queries.tcpEdges())],
    [
      '/backends',
      'backend',
      'backends',
      useQuery(queries.backends()),
      useQuery(queries.weightedBackends()),
      useQuery(queries.failoverBackends()),
    ],
    ['/domains', 'domain', 'domains', useQuery(queries.domains())],
    ['/certificates', 'certificate', 'certificates', useQuery(queries.certificates())],
    ['/webhooks', 'webhook', 'webhooks', useQuery({ ...queries.webhooks(), enabled: isAdmin })],
    ['/nodes', 'node', 'nodes', { data: nodes.data?.edge_nodes, isError: nodes.isError }],
  ]
  const marks = new Map<string, PageMark>()
  const alerts = alertMark(useQuery(queries.firingAlerts()), useQuery(queries.alertRules()))
  if (alerts) marks.set('/alerts', alerts)
  const halted = useQuery(queries.haltedRollouts())
  const count = halted.data?.rollouts.length ?? 0
  if (count > 0)
    marks.set('/rollouts', {
      health: 'partial',
      meaning: count === 1 ? '1 rollout is halted' : `${count} rollouts are halted`,
    })
  else if (halted.isError) marks.set('/rollouts', { health: 'unknown', meaning: 'Rollouts could not be read' })
  if (refused?.length) marks.set('/newly-refused', { health: 'down', meaning: 'Addresses were shut out' })
  for (const [path, one, many, ...lists] of reads) {
    const mark = markFor(one, many, lists)
    if (mark) marks.set(path, mark)
  }
  return marks
}

type Firing = { data?: Shapes['AlertList'] | undefined; isError: boolean }
type Rules = { data?: readonly Shapes['AlertRule'][] | undefined; isError: boolean }

/** Number of firing alerts. A rule that could not be evaluated does not count as fine. */
function alertMark(firing: Firing, rules: Rules): PageMark | undefined {
  const count = firing.data?.alerts.length ?? 0
  const isMore = Boolean(firing.data?.next_page_uri)
  if (count > 0)
    return {
      health: 'down',
      count: isMore ? `${count}+` : String(count),
      meaning: count === 1 ? '1 alert is firing' : `${isMore ? 'More than ' : ''}${count} alerts are firing`,
    }
  if (firing.isError || rules.isError) return { health: 'unknown', meaning: 'Alerts could not be read' }
  const unknown = rules.data?.filter(({ state }) => state === 'unknown').length ?? 0
  if (unknown === 0) return undefined
  return {
    health: 'unknown',
    meaning: unknown === 1 ? '1 alert rule is unknown' : `${unknown} alert rules are unknown`,
  }
}

function markFor(one: string, many: string, lists: readonly Read[]): PageMark | undefined {
  const statuses = lists
    .flatMap(({ data = [] }) => data.map(({ status }) => status))
    // Disabled resources are not a problem.
    .filter((status) => !(status && isFaulty(status) && isExpected(status)))
  const worst = statuses.toSorted((a, b) => rankOf(a) - rankOf(b))[0]
  const isUnread = lists.some(({ isError }) => isError)
  if (isUnread && !isFaulty(worst)) return { health: 'unknown', meaning: `The state of ${many} could not be read` }
  if (statuses.length === 0 || stateOf(worst) === 'up') return undefined
  const count = statuses.filter((each) => stateOf(each) === stateOf(worst)).length
  return { health: markOf(worst), meaning: `${count} ${count === 1 ? `${one} is` : `${many} are`} ${stateOf(worst)}` }
}
