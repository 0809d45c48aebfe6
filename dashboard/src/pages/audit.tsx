import { useState } from 'react'
import { useSearchParams } from 'react-router'
import { $api } from '../api/client.ts'
import { usePeople } from '../api/people.ts'
import { Badge, type Tone } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Choice } from '../ui/choice.tsx'
import { Field } from '../ui/field.tsx'
import { Skeleton } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { ProblemNote } from '../ui/problem.tsx'
import { Ago } from '../ui/time.tsx'
import { type AuditEvent, deedOf } from './audit/describe.ts'
import { Diff } from './audit/diff.tsx'
import { Subject, Who } from './audit/who.tsx'

export function Audit() {
  const people = usePeople() ?? []
  const [owner, setOwner] = useState('')
  const [resource, setResource] = useState(useSearchParams()[0].get('resource') ?? '')
  const resourceId = /^[a-z]+_[0-9a-z]{26}$/.test(resource.trim()) ? resource.trim() : undefined
  const events = $api.useInfiniteQuery(
    'get',
    '/audit_events',
    // Pages must not have the key of a single read, such as that of the overview: another limit is enough.
    { params: { query: { limit: 50, ...(owner && { owner_id: owner }), resource_id: resourceId } } },
    {
      pageParamName: 'before_id',
      initialPageParam: null,
      getNextPageParam: (page) => (page.next_page_uri ? page.audit_events.at(-1)?.id : undefined),
    },
  )
  const rows = events.data?.pages.flatMap((page) => page.audit_events) ?? []
  return (
    <>
      <PageHeader
        title="Audit log"
        summary="Every change, recorded in the same transaction as the change itself. Entries cannot be edited."
      />
      <div className="bar filters">
        <Choice
          label="User or bot"
          value={owner}
          onChange={setOwner}
          options={[
            { value: '', label: 'Everyone' },
            ...people.map(({ id, name, kind }) => ({ value: id, label: kind === 'bot' ? `${name} (bot)` : name })),
          ]}
        />
        <Field
          label="Resource"
          mono
          value={resource}
          onChange={setResource}
          placeholder="An id: ak_…, ipp_…, edghts_…"
          error={
            resource.trim() && !resourceId ? 'Enter a complete id, such as ak_ followed by 26 characters.' : undefined
          }
        />
      </div>
      <section className="card" aria-label="Changes">
        {events.isPending && (
          <div className="body">
            <Skeleton lines={10} />
          </div>
        )}
        {events.isError && (
          <div className="body">
            <ProblemNote error={events.error} retry={() => events.refetch()} />
          </div>
        )}
        {events.isSuccess && rows.length === 0 && <p className="empty">No matching changes.</p>}
        <ol className="audit">
          {rows.map((event) => (
            <Event key={event.id} event={event} onResource={setResource} />
          ))}
        </ol>
        {events.hasNextPage && (
          <div className="body">
            <Button isPending={events.isFetchingNextPage} onPress={() => events.fetchNextPage()}>
              Show older changes
            </Button>
          </div>
        )}
      </section>
    </>
  )
}

const kindOf = ({ before, after }: AuditEvent): { tone: Tone; word: string } =>
  !before
    ? { tone: 'allowed', word: 'Created' }
    : !after
      ? { tone: 'refused', word: 'Deleted' }
      : { tone: 'neutral', word: 'Changed' }

function Event({ event, onResource }: { event: AuditEvent; onResource: (id: string) => void }) {
  const { tone, word } = kindOf(event)
  return (
    <li>
      <div className="event-head">
        <Badge tone={tone}>{word}</Badge>
        <p>
          <Who ownerId={event.owner_id} /> {deedOf(event.operation)} <Subject event={event} />
        </p>
        <Ago at={event.created_at} />
      </div>
      {!event.resource_id.startsWith('ses_') && <Diff event={event} />}
      <p className="fine mono event-foot">
        <button type="button" className="link" onClick={() => onResource(event.resource_id)}>
          {event.resource_id}
        </button>
        <span>{event.operation_id}</span>
        {event.source_ip && <span>from {event.source_ip}</span>}
        {event.api_key_id && <span>with {event.api_key_id}</span>}
      </p>
    </li>
  )
}
