import { useQuery } from '@tanstack/react-query'
import { useParams } from 'react-router'
import type { Shapes } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { nodesIn } from '../shell/live_nodes.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Section } from '../ui/section.tsx'
import { NodeDetail } from './nodes/detail.tsx'
import { NodeTable } from './nodes/table.tsx'
import { OpenRollouts } from './rollouts/open_rollouts.tsx'

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
      <PageHeader title="Nodes" summary={nodes.data && !nodes.isError && sentenceOf(nodesIn(nodes.data))} />
      <OpenRollouts />
      <Loaded query={nodes} lines={4}>
        {(list) => <ByCell list={list} />}
      </Loaded>
    </>
  )
}

/** A single cell needs no grouping. */
function ByCell({ list: { edge_nodes, newest_generation } }: { list: Shapes['EdgeNodeList'] }) {
  const { cells = [] } = useQuery(queries.cells()).data ?? {}
  if (cells.length < 2) return <NodeTable nodes={edge_nodes} newest={newest_generation} />
  return cells.map(({ name }) => {
    const nodes = edge_nodes.filter(({ cell }) => cell === name)
    return (
      <Section key={name} title={name} note={nodes.length === 1 ? '1 node' : `${nodes.length} nodes`}>
        <NodeTable nodes={nodes} newest={newest_generation} label={`Edge nodes of ${name}`} />
      </Section>
    )
  })
}

function sentenceOf({ live, current, offline, isBlind }: ReturnType<typeof nodesIn>): string {
  if (live + offline === 0) return 'Nodes report here once they have started.'
  if (isBlind) return 'The control plane does not hear from nodes. Those that run keep what they have.'
  if (live === 0) return offline === 1 ? 'The node is offline.' : `All ${offline} nodes are offline.`
  const applied = `The newest generation is live on ${current} of ${live} ${live === 1 ? 'node' : 'nodes'}.`
  return offline ? `${applied} ${offline} ${offline === 1 ? 'node is' : 'nodes are'} offline.` : applied
}
