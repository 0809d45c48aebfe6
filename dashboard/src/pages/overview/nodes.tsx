import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { queries } from '../../api/queries.ts'
import { Loaded } from '../../ui/loading.tsx'
import { Section } from '../../ui/section.tsx'
import { NodeTable } from '../nodes/table.tsx'

export function Nodes() {
  const nodes = useQuery(queries.nodes())
  return (
    <Section title="Edge nodes" className="c5" action={<Link to="/nodes">All nodes</Link>}>
      <Loaded query={nodes} lines={3}>
        {({ edge_nodes, newest_generation }) => (
          <NodeTable nodes={edge_nodes.slice(0, 8)} newest={newest_generation} isShort />
        )}
      </Loaded>
    </Section>
  )
}
