import { useQuery } from '@tanstack/react-query'
import { usePeople } from '../../api/people.ts'
import { queries } from '../../api/queries.ts'
import { type AuditEvent, subjectOf } from './describe.ts'

/** The name of the owner; the id when the name is not known any more. */
export function Who({ ownerId, operation = '' }: { ownerId: string | null; operation?: string }) {
  const people = usePeople()
  if (!ownerId)
    return <>{operation.startsWith('rollouts.') ? 'The service or its operator' : 'A command on the server'}</>
  // An id that turns into a name a moment later makes the whole list jump.
  if (!people) return <span className="soft">…</span>
  return <>{people.find(({ id }) => id === ownerId)?.name ?? <span className="mono">{ownerId}</span>}</>
}

/** What people call the thing that was changed. An event about a policy's rules does not say which policy by name. */
export function Subject({ event }: { event: AuditEvent }) {
  const policies = useQuery({ ...queries.policies(), enabled: event.resource_id.startsWith('ipp_') }).data
  // Sessions have no names, and their owner has just been named.
  if (event.resource_id.startsWith('ses_')) return null
  const policy = policies?.find(({ id }) => id === event.resource_id)
  return <strong>{policy?.description ?? subjectOf(event)}</strong>
}
