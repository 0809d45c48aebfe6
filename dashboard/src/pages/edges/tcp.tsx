import { Link } from 'react-router'
import { $api } from '../../api/client.ts'
import { statusOfOneEveryMs } from '../../api/queries.ts'
import { Loaded } from '../../ui/loading.tsx'
import { StatusBadge } from '../../ui/status.tsx'
import { StatusNote } from '../../ui/status_note.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { ChangeList } from '../audit/list.tsx'
import { TrafficFigures } from '../statistics/traffic_figures.tsx'
import { EdgeHead } from './head.tsx'
import { HealthTable, useHealthOf } from './health_of.tsx'
import { BackendRow, RestrictionRow } from './modules.tsx'
import { ConnectionLimitRow } from './rate_limit.tsx'

export function TcpDetail({ id }: { id: string }) {
  const found = $api.useQuery(
    'get',
    '/edges/tcp/{id}',
    { params: { path: { id } } },
    { refetchInterval: statusOfOneEveryMs },
  )
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const healthOf = useHealthOf()
  return (
    <Loaded query={found} lines={6} title={id} parent={{ to: '/edges', name: 'Edges' }}>
      {(edge) => {
        const reported = healthOf?.(edge.backend?.backend.id) ?? []
        const place = { name: edge.hostports.join(', ') || edge.id, edgeId: edge.id }
        return (
          <>
            <EdgeHead kind="tcp" edge={edge} status={<StatusBadge status={edge.status} />}>
              <Link className="button plain" to={`/check?target=${edge.id}`}>
                Check an address
                <span className="for-readers"> against {place.name}</span>
              </Link>
            </EdgeHead>
            <Tabs
              label="Parts of the edge"
              tabs={[
                {
                  id: 'forwarding',
                  title: 'Forwarding',
                  children: (
                    <>
                      <StatusNote status={edge.status} />
                      <section className="frame modules" aria-label="Modules">
                        <BackendRow place={place} module={edge.backend} />
                        <RestrictionRow place={place} module={edge.ip_restriction} />
                        <ConnectionLimitRow place={place} module={edge.rate_limit} />
                      </section>
                      <HealthTable reported={reported} />
                    </>
                  ),
                },
                { id: 'traffic', title: 'Traffic', children: <TrafficFigures scope={{ edge_id: id }} /> },
                ...(isAdmin ? [{ id: 'history', title: 'History', children: <ChangeList resourceId={id} /> }] : []),
              ]}
            />
          </>
        )
      }}
    </Loaded>
  )
}
