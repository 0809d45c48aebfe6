import { Link } from 'react-router'
import { $api } from '../api/client.ts'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Ago } from '../ui/time.tsx'
import { deedOf } from './audit/describe.ts'
import { Subject, Who } from './audit/who.tsx'
import { Activity } from './overview/activity.tsx'
import { InForce } from './overview/in_force.tsx'
import { Nodes } from './overview/nodes.tsx'

export function Overview() {
  const caller = $api.useQuery('get', '/caller').data
  return (
    <>
      <PageHeader title="Overview" />
      <InForce />
      <Activity />
      {caller?.role === 'admin' && (
        <div className="columns">
          <Nodes />
          <LastChanges />
        </div>
      )}
    </>
  )
}

function LastChanges() {
  const changes = $api.useQuery(
    'get',
    '/audit_events',
    { params: { query: { limit: 40 } } },
    {
      refetchInterval: 15_000,
      // Who signed in is in the audit, and would push everything else off so short a list.
      select: ({ audit_events }) =>
        audit_events.filter(({ operation }) => !operation.startsWith('dashboard_session.')).slice(0, 8),
    },
  )
  return (
    <section className="card" aria-labelledby="last-changes">
      <header>
        <h2 id="last-changes">Latest changes</h2>
        <Link to="/audit">Show all changes</Link>
      </header>
      <div className="body">
        <Loaded query={changes} lines={8}>
          {(events) => (
            <ol className="events">
              {events.map((event) => (
                <li key={event.id}>
                  <span>
                    <Who ownerId={event.owner_id} /> {deedOf(event.operation)} <Subject event={event} />
                  </span>
                  <span className="fine">
                    <Ago at={event.created_at} />
                  </span>
                </li>
              ))}
            </ol>
          )}
        </Loaded>
      </div>
    </section>
  )
}
