import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense } from 'react'
import { $api } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { Skeleton } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Activity } from './overview/activity.tsx'
import { AttentionList } from './overview/attention.tsx'
import { FlowStrip, flowSentence, useEdges } from './overview/flow.tsx'
import { useFirstSteps } from './overview/started.ts'
import { useAttention } from './overview/use_attention.tsx'
import { OpenRollouts } from './rollouts/open_rollouts.tsx'
import { TrafficFigures } from './statistics/traffic_figures.tsx'

// Lazy: at the foot of the page, and only for accounts that are not set up yet.
const Columns = lazy(async () => ({ default: (await import('./overview/columns.tsx')).Columns }))
const GetStarted = lazy(async () => ({ default: (await import('./overview/get_started.tsx')).GetStarted }))
// Lazy: usually no alert fires.
const FiringAlerts = lazy(async () => ({ default: (await import('./overview/firing_alerts.tsx')).FiringAlerts }))

export function Overview() {
  const caller = $api.useQuery('get', '/caller').data
  const isAdmin = caller?.role === 'admin'
  const attention = useAttention(isAdmin)
  const edges = useEdges()
  const firstSteps = useFirstSteps(caller)
  const firing = useQuery(queries.firingAlerts()).data?.alerts ?? []
  return (
    <>
      <PageHeader
        title="Overview"
        summary={[flowSentence(edges), attention && sentenceFor(attention.length)].filter(Boolean).join(' ')}
      />
      {edges && <FlowStrip edges={edges} />}
      <OpenRollouts only={({ state }) => state !== 'halted'} />
      {attention && attention.length > 0 && <AttentionList items={attention} />}
      {firing.length > 0 && (
        <Suspense>
          <FiringAlerts alerts={firing} isAdmin={isAdmin} />
        </Suspense>
      )}
      {firstSteps.isOpen && (
        <Suspense>
          <GetStarted onHide={firstSteps.hide} />
        </Suspense>
      )}
      <TrafficFigures />
      <Activity />
      <Suspense fallback={<Skeleton lines={6} />}>
        <Columns isAdmin={isAdmin} />
      </Suspense>
    </>
  )
}

function sentenceFor(items: number): string {
  if (items === 0) return 'Nothing needs your attention.'
  return items === 1 ? '1 thing needs attention.' : `${items} things need attention.`
}
