import { useQuery } from '@tanstack/react-query'
import { $api } from '../../api/client.ts'
import { Loaded, Skeleton } from '../../ui/loading.tsx'
import { Section } from '../../ui/section.tsx'
import { StatusNote } from '../../ui/status_note.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { ChangeList } from '../audit/list.tsx'
import { HealthTable, useHealthOf } from '../edges/health_of.tsx'
import { TrafficFigures } from '../statistics/traffic_figures.tsx'
import { type Backend, BackendLink, backendQuery } from './backend.tsx'
import { BackendHead } from './head.tsx'
import { Servers } from './servers.tsx'
import { type Uses, useUses } from './use_uses.ts'
import { UsedBy } from './used_by.tsx'

export function BackendDetail({ id }: { id: string }) {
  const found = useQuery(backendQuery(id))
  const uses = useUses(id)
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  return (
    <Loaded query={found} lines={8} title={id} parent={{ to: '/backends', name: 'Backends' }}>
      {(backend) => (
        <>
          <BackendHead backend={backend} uses={uses} />
          <Tabs
            label="Parts of the backend"
            tabs={[
              {
                id: 'servers',
                title: backend.kind === 'http_response' ? 'Response' : 'Servers',
                children: <Parts backend={backend} uses={uses} />,
              },
              ...(isAdmin ? [{ id: 'history', title: 'History', children: <ChangeList resourceId={id} /> }] : []),
            ]}
          />
        </>
      )}
    </Loaded>
  )
}

function Parts({ backend, uses }: { backend: Backend; uses: Uses | null | undefined }) {
  const healthOf = useHealthOf()
  return (
    <>
      {backend.kind !== 'http_response' && <StatusNote status={backend.backend.status} />}
      {backend.kind === 'http_response' ? <Response backend={backend.backend} /> : <Servers backend={backend} />}
      {uses && <UsedBy uses={uses} />}
      {uses === undefined && <Skeleton lines={3} />}
      {uses === null && <p className="note warned">What uses this backend could not be read.</p>}
      {uses && <Traffic id={backend.backend.id} uses={uses} />}
      {/* The report is limited to 1,000 servers, so an empty list does not prove health; the state does. */}
      <HealthTable reported={healthOf?.(backend.backend.id) ?? []} />
    </>
  )
}

/** Traffic through a group is counted for the group, so its members would seem to have none. */
function Traffic({ id, uses: { direct, groups } }: { id: string; uses: Uses }) {
  const used = groups.filter(({ uses }) => uses.length > 0)
  const counted = used.length > 0 && (
    <p className="soft">
      Traffic through a group is counted for the group:{' '}
      {used.map(({ group: { backend } }, index) => (
        <span key={backend.id}>
          {index > 0 && ', '}
          <BackendLink id={backend.id} />
        </span>
      ))}
      .
    </p>
  )
  if (counted && direct.length === 0) return <Section title="Traffic">{counted}</Section>
  return (
    <>
      <TrafficFigures scope={{ backend_id: id }} />
      {counted}
    </>
  )
}

function Response({ backend }: { backend: Extract<Backend, { kind: 'http_response' }>['backend'] }) {
  return (
    <Section title="Response">
      <dl className="facts">
        <dt>Status</dt>
        <dd>{backend.status_code}</dd>
        <dt>Headers</dt>
        <dd className="mono">
          {Object.entries(backend.headers)
            .map(([name, value]) => `${name}: ${value}`)
            .join(', ') || 'None'}
        </dd>
        <dt>Body</dt>
        <dd className="mono">{backend.body || 'Empty'}</dd>
      </dl>
    </Section>
  )
}
