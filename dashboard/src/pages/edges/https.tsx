import { useQuery } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { Link } from 'react-router'
import { $api, type Api, answerOf, api, type Shapes } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { queries, statusOfOneEveryMs, useRefresh } from '../../api/queries.ts'
import { TrialImpact } from '../../change_impact.tsx'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { Icon } from '../../ui/icons.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { MoreMenu } from '../../ui/more_menu.tsx'
import { Empty } from '../../ui/states.tsx'
import { RolloutLink, StatusBadge, StatusState } from '../../ui/status.tsx'
import { StatusNote } from '../../ui/status_note.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { EdgeTraffic } from '../statistics/edge_traffic.tsx'
import { AddRoute } from './add_route.tsx'
import { nameOfGroup, useGroups } from './backend_options.ts'
import { Checklist } from './checklist.tsx'
import { CorsRow } from './cors.tsx'
import { FilterRow } from './filters.tsx'
import { EdgeHead } from './head.tsx'
import { HeadersRow } from './headers.tsx'
import { HealthTable, useHealthOf } from './health_of.tsx'
import { EdgeHistory } from './history.tsx'
import { BackendRow, RestrictionRow } from './modules.tsx'
import { MutualTlsRow } from './mutual_tls.tsx'
import { RateLimitRow } from './rate_limit.tsx'
import { RedirectRow } from './redirect.tsx'
import { RewriteRow } from './rewrite.tsx'
import { timeoutsText } from './timeouts.tsx'

type Edge = Shapes['HttpsEdge']
type Route = Shapes['HttpsEdgeRoute']

export function HttpsDetail({ id }: { id: string }) {
  const found = $api.useQuery(
    'get',
    '/edges/https/{id}',
    { params: { path: { id } } },
    { refetchInterval: statusOfOneEveryMs },
  )
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const [isAdding, setAdding] = useState(false)
  const healthOf = useHealthOf()
  // Routes may share an upstream, directly or through a group; it is listed once.
  const healthIn = (edge: Edge) => [
    ...new Set(edge.routes.flatMap(({ backend }) => healthOf?.(backend?.backend.id) ?? [])),
  ]
  return (
    <Loaded query={found} lines={8} title={id} parent={{ to: '/edges', name: 'Edges' }}>
      {(edge) => (
        <>
          <EdgeHead kind="https" edge={edge} status={<StatusBadge status={edge.status} />}>
            <Link className="button plain" to={edge.routes[0] ? `/check?target=${edge.routes[0].id}` : '/check'}>
              Check an address
            </Link>
            <Button kind="primary" icon="plus" onPress={() => setAdding(true)}>
              Add route
            </Button>
          </EdgeHead>
          <Tabs
            label="Parts of the edge"
            tabs={[
              {
                id: 'routes',
                title: 'Routes',
                count: edge.routes.length,
                children: (
                  <>
                    <StatusNote status={edge.status} />
                    <section className="frame modules" aria-label="Modules of the edge">
                      <MutualTlsRow
                        place={{ name: edge.hostports[0] ?? edge.id, edgeId: edge.id }}
                        module={edge.mutual_tls}
                      />
                    </section>
                    <Routes edge={edge} />
                    <HealthTable reported={healthIn(edge)} />
                  </>
                ),
              },
              { id: 'checklist', title: 'Checklist', children: <Checklist edge={edge} /> },
              { id: 'traffic', title: 'Traffic', children: <EdgeTraffic edge={edge} /> },
              ...(isAdmin
                ? [{ id: 'history', title: 'History', children: <EdgeHistory edgeId={id} routes={edge.routes} /> }]
                : []),
            ]}
          />
          {isAdding && <AddRoute edge={edge} onClose={() => setAdding(false)} />}
        </>
      )}
    </Loaded>
  )
}

/** With few routes, all are expanded; with many, only their lines are shown. */
const openAtFirst = 3

/** Alphabetical order shows which path is inside which. */
const byPath = (a: Route, b: Route): number => a.match.localeCompare(b.match)

function Routes({ edge }: { edge: Edge }) {
  if (edge.routes.length === 0)
    return (
      <div className="frame">
        <Empty title="No routes yet">Every request is refused until a route forwards it to a backend.</Empty>
      </div>
    )
  return (
    <div className="frame routes">
      <div className="route-line head" aria-hidden="true">
        <span>Path</span>
        <span>Backend</span>
        <span>Health</span>
        <span>Addresses</span>
        <span>Headers</span>
        <span>Options</span>
      </div>
      {edge.routes.toSorted(byPath).map((route) => (
        <RouteShown key={route.id} edge={edge} route={route} isOpenAtFirst={edge.routes.length <= openAtFirst} />
      ))}
    </div>
  )
}

type RouteProps = { edge: Edge; route: Route; isOpenAtFirst: boolean }

function RouteShown({ edge, route, isOpenAtFirst }: RouteProps) {
  const [isLeaving, setLeaving] = useState(false)
  const mayChange = useMayChange()
  const [isOpen, setOpen] = useState(isOpenAtFirst)
  const body = useId()
  const place = { name: `${edge.hostports[0] ?? edge.id}${route.match}`, edgeId: edge.id, routeId: route.id }
  return (
    <article aria-label={`Route ${route.match}`}>
      <div className="route-line">
        <h3>
          <button
            type="button"
            className="route-toggle"
            aria-expanded={isOpen}
            aria-controls={body}
            onClick={() => setOpen(!isOpen)}
          >
            <Icon name={isOpen ? 'down' : 'right'} />
            <span className="mono">{route.match}</span>
            <span className="tag">{route.match_type === 'exact_path' ? 'Exact' : 'Prefix'}</span>
          </button>
        </h3>
        <RouteSummary route={route} />
        <Link className="button quiet small" to={`/check?target=${route.id}`}>
          Check
          <span className="for-readers"> an address against {place.name}</span>
        </Link>
        {mayChange && (
          <MoreMenu
            label={`Actions for route ${route.match}`}
            groups={() => [
              {
                entries: [{ label: 'Delete route…', icon: 'trash', isDanger: true, onAction: () => setLeaving(true) }],
              },
            ]}
          />
        )}
      </div>
      {isOpen && (
        <div id={body} className="modules">
          <BackendRow place={place} module={route.backend} />
          <RestrictionRow place={place} module={route.ip_restriction} />
          <FilterRow kind="user_agent_filter" place={place} module={route.user_agent_filter} />
          <CorsRow place={place} module={route.cors} />
          <FilterRow kind="methods" place={place} module={route.methods} />
          <RateLimitRow place={place} module={route.rate_limit} />
          <RedirectRow place={place} module={route.redirect} />
          <RewriteRow place={place} module={route.rewrite} />
          {(['request', 'response'] as const).map((message) => (
            <HeadersRow
              key={message}
              message={message}
              place={place}
              module={route[`${message}_headers`]}
              host={edge.hostports[0]}
              path={route.match}
            />
          ))}
        </div>
      )}
      {isLeaving && <DeleteRoute route={route} name={place.name} onClose={() => setLeaving(false)} />}
    </article>
  )
}

/** Target, access and modifications of a route, in columns. */
function RouteSummary({ route }: { route: Route }) {
  const { backend, ip_restriction, request_headers, response_headers, redirect } = route
  const backends = useQuery(queries.backends()).data
  const policies = useQuery(queries.policies()).data
  const target = backends?.find(({ id }) => id === backend?.backend.id)
  const group = useGroups()?.find((each) => each.backend.id === backend?.backend.id)
  const headers = [request_headers, response_headers].filter((module) => module?.enabled)
  const added = headers.flatMap((module) => Object.keys(module?.add ?? {})).length
  const removed = headers.flatMap((module) => module?.remove ?? []).length
  return (
    <>
      <span className="route-backend">
        {redirect?.enabled ? (
          `→ ${redirect.to}`
        ) : backend?.enabled ? (
          <Link to={`/backends/${backend.backend.id}`}>
            {target?.description ?? target?.address ?? (group ? nameOfGroup(group) : backend.backend.id)}
          </Link>
        ) : (
          <span className="soft">No backend</span>
        )}
      </span>
      <span className="route-health">
        <span className="two">
          <StatusState status={route.status} />
          <RolloutLink status={route.status} />
        </span>
      </span>
      <span className="route-addresses">
        {ip_restriction?.enabled ? (
          <span className="lock">
            <Icon name="lock" />
            {ip_restriction.ip_policies
              .map((policy) => policies?.find(({ id }) => id === policy.id)?.description ?? policy.id)
              .join(', ')}
            {ip_restriction.mode === 'warn' && <span className="soft">warns only</span>}
          </span>
        ) : (
          <span className="soft">Open</span>
        )}
      </span>
      <span className="route-headers mono">
        {added > 0 && <span className="plus">+{added}</span>} {removed > 0 && <span className="minus">−{removed}</span>}
      </span>
      <Traits route={route} />
    </>
  )
}

/** Special settings of the route, in a few words. */
function Traits({ route }: { route: Route }) {
  return (
    <p className="traits">
      {route.encoded_slashes === 'allow' && <span className="tag">encoded slashes allowed</span>}
      {route.path_variants === 'ignore' && <span className="tag">other spellings unrestricted</span>}
      {!route.websocket && <span className="tag">no WebSockets</span>}
      {route.timeouts && <span className="tag">timeouts: {timeoutsText(route.timeouts)}</span>}
      <span className="soft">{route.description}</span>
    </p>
  )
}

function DeleteRoute({ route, name, onClose }: { route: Route; name: string; onClose: () => void }) {
  const refresh = useRefresh()
  const remove = (on: Api) =>
    answerOf(
      on.DELETE('/edges/https/{edge_id}/routes/{id}', { params: { path: { edge_id: route.edge_id, id: route.id } } }),
    )
  return (
    <Confirm
      canDraft
      title={`Delete route ${name}?`}
      action="Delete route"
      act={() => remove(api)}
      onDone={async () => {
        onClose()
        await refresh('/edges')
      }}
      onClose={onClose}
    >
      <p>Its requests then match a shorter route of this edge, or are refused if there is none.</p>
      <TrialImpact of={[route.id, 'delete']} change={remove} />
    </Confirm>
  )
}
