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

/** What people call the thing that was changed. An event about a policy's rules, or a module of a route, does not say of what by name. */
export function Subject({ event }: { event: AuditEvent }) {
  const id = event.resource_id
  const policies = useQuery({ ...queries.policies(), enabled: id.startsWith('ipp_') }).data
  const edges = useQuery({ ...queries.httpsEdges(), enabled: id.startsWith('edghtsrt_') }).data
  // Sessions have no names, and their owner has just been named.
  if (id.startsWith('ses_')) return null
  const route = edges?.flatMap(({ routes }) => routes).find((each) => each.id === id)
  return <strong>{policies?.find((each) => each.id === id)?.description ?? route?.match ?? subjectOf(event)}</strong>
}
