import { useQuery } from '@tanstack/react-query'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { Badge } from '../../ui/badge.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { Ago } from '../../ui/time.tsx'

type Node = Shapes['EdgeNode']

export function Nodes() {
  const nodes = useQuery(queries.nodes())
  return (
    <section className="card" aria-labelledby="nodes">
      <header>
        <h2 id="nodes">Edge nodes</h2>
        {nodes.data && <Verdict nodes={nodes.data.edge_nodes} newest={nodes.data.newest_generation} />}
      </header>
      <Loaded query={nodes} lines={3}>
        {({ edge_nodes, newest_generation }) =>
          edge_nodes.length ? <NodeTable nodes={edge_nodes} newest={newest_generation} /> : <NoNodes />
        }
      </Loaded>
    </section>
  )
}

function Verdict({ nodes, newest }: { nodes: readonly Node[]; newest: number }) {
  const live = nodes.filter((node) => node.live)
  const current = live.filter((node) => node.applied_generation >= newest)
  if (live.length === 0) return null
  return (
    <Badge tone={current.length === live.length ? 'allowed' : 'warned'}>
      {`Latest change applied on ${current.length} of ${live.length} ${live.length === 1 ? 'node' : 'nodes'}`}
    </Badge>
  )
}

function NodeTable({ nodes, newest }: { nodes: readonly Node[]; newest: number }) {
  return (
    <table className="stack">
      <thead>
        <tr>
          <th scope="col">Node</th>
          <th scope="col">State</th>
          <th scope="col">Generation</th>
          <th scope="col">Last seen</th>
        </tr>
      </thead>
      <tbody>
        {nodes.map((node) => (
          <tr key={node.name}>
            <th scope="row" className="mono">
              {node.name}
            </th>
            <td>
              {node.live ? (
                <Badge tone={node.refusals.length ? 'warned' : 'allowed'}>
                  {node.refusals.length ? 'Rejected records' : 'Live'}
                </Badge>
              ) : (
                <Badge tone="refused">Offline</Badge>
              )}
              {node.refusals.map(({ key, reason, at }) => (
                <p key={`${key} ${at}`} className="fine">
                  {reason}
                </p>
              ))}
            </td>
            <td data-label="Generation" className="mono">
              {node.applied_generation}
              {node.applied_generation < newest && <span className="fine"> of {newest}</span>}
            </td>
            <td data-label="Last seen">
              <Ago at={node.last_seen_at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function NoNodes() {
  return <p className="empty">No edge nodes yet. Changes are stored and applied when the first node starts.</p>
}
