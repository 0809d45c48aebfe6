import { useState } from 'react'
import { Link } from 'react-router'
import { $api } from '../../api/client.ts'
import { Badge, type Tone } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Skeleton } from '../../ui/loading.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { Empty } from '../../ui/states.tsx'
import { Ago } from '../../ui/time.tsx'
import type { Reversal } from '../../undo.tsx'
import { type AuditEvent, deedOf } from './describe.ts'
import { Diff } from './diff.tsx'
import { Revert } from './revert.tsx'
import { Subject, Who } from './who.tsx'

type Filters = { operation?: string; source_ip?: string; since?: string }
type Props = { ownerId?: string | undefined; apiKeyId?: string; resourceId?: string | undefined; filters?: Filters }

/** Changes, newest first, field by field: all, those of one person, or those of one resource. */
export function ChangeList({ ownerId, apiKeyId, resourceId, filters }: Props) {
  const events = $api.useInfiniteQuery(
    'get',
    '/audit_events',
    // The key of an infinite query must differ from that of a single read, such as the overview's; a different limit
    // suffices.
    {
      params: {
        query: {
          limit: 50,
          ...(ownerId && { owner_id: ownerId }),
          ...(apiKeyId && { api_key_id: apiKeyId }),
          resource_id: resourceId,
          ...filters,
        },
      },
    },
    {
      pageParamName: 'before_id',
      initialPageParam: null,
      // Not the last row: with several filters, a page may be empty and still have a next one.
      getNextPageParam: ({ next_page_uri: next }) => (next ? new URL(next).searchParams.get('before_id') : undefined),
    },
  )
  const rows = events.data?.pages.flatMap((page) => page.audit_events) ?? []
  return (
    <section className="frame" aria-label="Changes">
      {events.isPending && <Skeleton lines={10} />}
      {events.isError && <ProblemNote error={events.error} retry={() => events.refetch()} />}
      {events.isSuccess && rows.length === 0 && <Empty title="No matching changes" />}
      <ol className="audit">
        {rows.map((event) => (
          <Event key={event.id} event={event} />
        ))}
      </ol>
      {events.hasNextPage && (
        <div className="table-foot">
          <Button isPending={events.isFetchingNextPage} onPress={() => events.fetchNextPage()}>
            Show older changes
          </Button>
        </div>
      )}
    </section>
  )
}

const kindOf = ({ before, after }: AuditEvent): { tone: Tone; word: string } =>
  !before
    ? { tone: 'allowed', word: 'Created' }
    : !after
      ? { tone: 'refused', word: 'Deleted' }
      : { tone: 'neutral', word: 'Changed' }

/** Shows the changed fields; for a creation or deletion, all fields on demand. */
function Fields({ event }: { event: AuditEvent }) {
  if (event.resource_id.startsWith('ses_')) return null
  if (event.before && event.after) return <Diff event={event} />
  return (
    <details>
      <summary>{event.after ? 'Show what was created' : 'Show what was deleted'}</summary>
      <Diff event={event} />
    </details>
  )
}

/** Sessions end by themselves, drafts are deleted, and commands on the server are undone there. */
const cannotBeReverted =
  /^(server|rollouts|sign_in|dashboard_session|command_sign_in|audit_events)\.|^change_sets\.(?!apply)|\.(rotate|replay|test|verify)$|\.invitation\./
const reversalOf = ({ operation, id, resource_id }: AuditEvent): Reversal | undefined =>
  cannotBeReverted.test(operation)
    ? undefined
    : operation === 'change_sets.apply'
      ? { kind: 'change_set', id: resource_id }
      : { kind: 'event', id }

function Event({ event }: { event: AuditEvent }) {
  const { tone, word } = kindOf(event)
  const [isReverting, setReverting] = useState(false)
  const reversal = reversalOf(event)
  return (
    <li>
      <div className="event-head">
        <Badge tone={tone}>{word}</Badge>
        <p>
          <b className="strong">
            <Who ownerId={event.owner_id} operation={event.operation} />
          </b>{' '}
          <span className="soft">{deedOf(event.operation)}</span> <Subject event={event} />
        </p>
        <Ago at={event.created_at} />
        {reversal && (
          <button type="button" className="link" onClick={() => setReverting(true)}>
            Revert…
          </button>
        )}
      </div>
      <Fields event={event} />
      <p className="fine mono event-foot">
        <Link to={`/audit?resource=${event.resource_id}`}>{event.resource_id}</Link>
        <span>{event.operation_id}</span>
        {event.source_ip && <span>from {event.source_ip}</span>}
        {event.api_key_id && <span>with {event.api_key_id}</span>}
      </p>
      {isReverting && reversal && (
        <Revert
          title={`Revert “${deedOf(event.operation)}”?`}
          reversal={reversal}
          onClose={() => setReverting(false)}
        />
      )}
    </li>
  )
}
