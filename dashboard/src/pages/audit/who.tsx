import { useQuery } from '@tanstack/react-query'
import { usePeople } from '../../api/people.ts'
import { queries } from '../../api/queries.ts'
import { type AuditEvent, subjectOf } from './describe.ts'

/** The owner's name, or the id if the name is unknown. */
export function Who({ ownerId, operation = '' }: { ownerId: string | null; operation?: string }) {
  const people = usePeople()
  if (!ownerId)
    return <>{operation.startsWith('rollouts.') ? 'The service or its operator' : 'A command on the server'}</>
  // Shows no id first: replacing it with a name would make the list jump.
  if (!people) return <span className="soft">…</span>
  return <>{people.find(({ id }) => id === ownerId)?.name ?? <span className="mono">{ownerId}</span>}</>
}

/** Name of the changed resource. Events about a policy's rules or a route's module contain no name. */
export function Subject({ event }: { event: AuditEvent }) {
  const id = event.resource_id
  const policies = useQuery({ ...queries.policies(), enabled: id.startsWith('ipp_') }).data
  const edges = useQuery({ ...queries.httpsEdges(), enabled: id.startsWith('edghtsrt_') }).data
  // Sessions have no names, and the owner is shown beside them.
  if (id.startsWith('ses_')) return null
  const route = edges?.flatMap(({ routes }) => routes).find((each) => each.id === id)
  return <strong>{policies?.find((each) => each.id === id)?.description ?? route?.match ?? subjectOf(event)}</strong>
}
