import { useQuery } from '@tanstack/react-query'
import { queries } from '../api/queries.ts'
import type { Health } from '../ui/state.tsx'
import { nodesIn } from './live_nodes.tsx'

export type PageMark = { health: Health; meaning: string }

/** Problems, by the page that shows them. Only what is cheap to read, since it is read on every page. */
export function useMarks(isAdmin: boolean): Map<string, PageMark> {
  const nodes = useQuery({ ...queries.nodes(), enabled: isAdmin }).data
  const down = useQuery(queries.downBackends()).data
  const refused = useQuery({ ...queries.newlyRefused(), enabled: isAdmin }).data?.newly_refused_addresses
  const marks = new Map<string, PageMark>()
  if (down?.total) marks.set('/backends', { health: 'down', meaning: 'Backends are down' })
  if (refused?.length) marks.set('/newly-refused', { health: 'down', meaning: 'Addresses were shut out' })
  if (nodes && nodesIn(nodes).offline > 0) marks.set('/nodes', { health: 'down', meaning: 'Nodes are offline' })
  else if (nodes?.edge_nodes.some(({ refusals }) => refusals.length > 0))
    marks.set('/nodes', { health: 'partial', meaning: 'Nodes rejected a change' })
  return marks
}
