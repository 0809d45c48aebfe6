import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { queries } from '../../api/queries.ts'
import { rankOf, type Status, StatusState, stateOf } from '../../ui/status.tsx'

type Edge = { id: string; description?: string; hostports: readonly string[]; status?: Status }
const maxNamed = 4

/** All edges of the account. Undefined while loading; null if unreadable. */
export function useEdges(): Edge[] | null | undefined {
  const https = useQuery(queries.httpsEdges())
  const tcp = useQuery(queries.tcpEdges())
  if (https.isError || tcp.isError) return null
  return https.data && tcp.data && [...https.data, ...tcp.data]
}

/** Degraded traffic still flows. */
const flows = ({ status }: Edge): boolean => ['up', 'degraded'].includes(stateOf(status))

/** The first question of an operator. Undefined without edges. */
export function flowSentence(edges: readonly Edge[] | null | undefined): string | undefined {
  if (edges === null) return 'Whether traffic is flowing could not be read.'
  if (!edges || edges.length === 0) return undefined
  const flowing = edges.filter(flows).length
  if (flowing === edges.length)
    return edges.length === 1 ? 'Traffic is flowing on your edge.' : `Traffic is flowing on all ${edges.length} edges.`
  const unknown = edges.filter(({ status }) => stateOf(status) === 'unknown').length
  if (unknown === edges.length)
    return `Whether traffic is flowing on ${unknown === 1 ? 'your edge' : `your ${unknown} edges`} is not known.`
  const sentence = `Traffic is flowing on ${flowing} of ${edges.length} ${edges.length === 1 ? 'edge' : 'edges'}`
  return unknown === 0 ? `${sentence}.` : `${sentence}, and not known of ${unknown}.`
}

/** Edges that are not up, worst first, and the number of others. */
export function FlowStrip({ edges }: { edges: readonly Edge[] }) {
  const worst = edges
    .filter(({ status }) => stateOf(status) !== 'up')
    .sort((a, b) => rankOf(a.status) - rankOf(b.status))
  const up = edges.length - worst.length
  if (worst.length === 0) return null
  return (
    <p className="flow-strip">
      {worst.slice(0, maxNamed).map(({ id, description, hostports, status }) => (
        <Link key={id} to={`/edges/${id}`}>
          <StatusState status={status}>
            <span>
              <b>{description ?? hostports[0] ?? id}</b> is {stateOf(status)}
            </span>
          </StatusState>
        </Link>
      ))}
      {worst.length > maxNamed && <Link to="/edges?show=faulty">and {worst.length - maxNamed} more</Link>}
      {up > 0 && <span className="soft">{up} up</span>}
    </p>
  )
}
