import { useState } from 'react'
import { $api, answerOf, api, type Shapes } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { AddRoute } from './add_route.tsx'
import { EdgeHead } from './head.tsx'
import { HeadersRow } from './headers.tsx'
import { BackendRow, RestrictionRow } from './modules.tsx'
import { timeoutsText } from './timeouts.tsx'

type Edge = Shapes['HttpsEdge']
type Route = Shapes['HttpsEdgeRoute']

export function HttpsDetail({ id }: { id: string }) {
  const found = $api.useQuery('get', '/edges/https/{id}', { params: { path: { id } } })
  const [isAdding, setAdding] = useState(false)
  return (
    <Loaded query={found} lines={8}>
      {(edge) => {
        return (
          <>
            <EdgeHead kind="https" edge={edge}>
              <Button kind="primary" icon="plus" onPress={() => setAdding(true)}>
                Add route
              </Button>
            </EdgeHead>
            <h2>Routes</h2>
            {edge.routes.length === 0 && <p className="card empty">No routes yet. Every request is refused.</p>}
            {edge.routes.map((route) => (
              <RouteCard key={route.id} edge={edge} route={route} />
            ))}
            {isAdding && <AddRoute edge={edge} onClose={() => setAdding(false)} />}
          </>
        )
      }}
    </Loaded>
  )
}

function RouteCard({ edge, route }: { edge: Edge; route: Route }) {
  const [isLeaving, setLeaving] = useState(false)
  const place = { name: `${edge.hostports[0] ?? edge.id}${route.match}`, edgeId: edge.id, routeId: route.id }
  return (
    <article className="card" aria-label={`Route ${route.match}`}>
      <header>
        <h3>
          <span className="mono">{route.match}</span>{' '}
          <Badge tone="neutral">{route.match_type === 'exact_path' ? 'Exact' : 'Prefix'}</Badge>{' '}
          {route.encoded_slashes === 'allow' && <Badge tone="neutral">encoded slashes allowed</Badge>}
          {!route.websocket && <Badge tone="neutral">no WebSockets</Badge>}
          {route.timeouts && <Badge tone="neutral">timeouts: {timeoutsText(route.timeouts)}</Badge>}
        </h3>
        <Button aria-label={`Delete route ${route.match}`} onPress={() => setLeaving(true)}>
          Delete
        </Button>
      </header>
      {route.description && <p className="body soft">{route.description}</p>}
      <div className="body">
        <BackendRow place={place} module={route.backend} />
        <RestrictionRow place={place} module={route.ip_restriction} />
        <HeadersRow place={place} module={route.request_headers} host={edge.hostports[0]} path={route.match} />
      </div>
      {isLeaving && <DeleteRoute route={route} name={place.name} onClose={() => setLeaving(false)} />}
    </article>
  )
}

function DeleteRoute({ route, name, onClose }: { route: Route; name: string; onClose: () => void }) {
  const refresh = useRefresh()
  return (
    <Confirm
      title={`Delete route ${name}?`}
      action="Delete route"
      act={() =>
        answerOf(
          api.DELETE('/edges/https/{edge_id}/routes/{id}', {
            params: { path: { edge_id: route.edge_id, id: route.id } },
          }),
        )
      }
      onDone={async () => {
        onClose()
        await refresh('/edges')
      }}
      onClose={onClose}
    >
      <p>Its requests then match a shorter route of this edge, or are refused if there is none.</p>
    </Confirm>
  )
}
