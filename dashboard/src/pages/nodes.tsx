import { useQuery } from '@tanstack/react-query'
import { useParams } from 'react-router'
import { queries } from '../api/queries.ts'
import { nodesIn } from '../shell/live_nodes.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { NodeDetail } from './nodes/detail.tsx'
import { NodeTable } from './nodes/table.tsx'

export function Nodes() {
  const { id } = useParams()
  const nodes = useQuery(queries.nodes())
  if (id)
    return (
      <Loaded query={nodes} lines={6}>
        {(list) => <NodeDetail key={id} name={id} list={list} />}
      </Loaded>
    )
  return (
    <>
      <PageHeader title="Nodes" summary={nodes.data && sentenceOf(nodesIn(nodes.data))} />
      <Loaded query={nodes} lines={4}>
        {({ edge_nodes, newest_generation }) => <NodeTable nodes={edge_nodes} newest={newest_generation} />}
      </Loaded>
    </>
  )
}

function sentenceOf({ live, current, offline }: ReturnType<typeof nodesIn>): string {
  if (live + offline === 0) return 'Nodes report here once they have started.'
  const applied = `The newest generation is live on ${current} of ${live} ${live === 1 ? 'node' : 'nodes'}.`
  return offline ? `${applied} ${offline} ${offline === 1 ? 'node is' : 'nodes are'} offline.` : applied
}
