import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { every } from '../../api/every.ts'
import { queries } from '../../api/queries.ts'
import { Loaded } from '../../ui/loading.tsx'
import { Section } from '../../ui/section.tsx'
import { Ago } from '../../ui/time.tsx'
import { deedOf } from '../audit/describe.ts'
import { Subject, Who } from '../audit/who.tsx'

export function LastChanges() {
  const changes = useQuery({
    ...queries.changes(),
    refetchInterval: every(20_000),
    // Sign-ins would push everything else off such a short list.
    select: ({ audit_events }) =>
      audit_events.filter(({ operation }) => !/^(dashboard_session|sign_in)\./.test(operation)).slice(0, 6),
  })
  return (
    <Section title="Latest changes" className="c7" action={<Link to="/audit">Audit log</Link>}>
      <div className="frame">
        <Loaded query={changes} lines={6}>
          {(events) => (
            <ol className="feed">
              {events.map((event) => (
                <li key={event.id}>
                  <span>
                    <b className="strong">
                      <Who ownerId={event.owner_id} operation={event.operation} />
                    </b>{' '}
                    <span className="soft">{deedOf(event.operation)}</span> <Subject event={event} />
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
    </Section>
  )
}
