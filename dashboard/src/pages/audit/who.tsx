import { useQuery } from '@tanstack/react-query'
import { queries } from '../../api/queries.ts'

/** The name of whoever did it; the id when the name is not known any more. */
export function Who({ ownerId }: { ownerId: string | null }) {
  const people = useQuery(queries.people()).data
  if (!ownerId) return <>A command on the server</>
  return <>{people?.find(({ id }) => id === ownerId)?.name ?? <span className="mono">{ownerId}</span>}</>
}
