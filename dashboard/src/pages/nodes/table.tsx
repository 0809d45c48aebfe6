import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { DataTable } from '../../ui/data_table.tsx'
import { State } from '../../ui/state.tsx'
import { Empty } from '../../ui/states.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'

export type Node = Shapes['EdgeNode']
const count = new Intl.NumberFormat('en')

const NodeLink = ({ name }: { name: string }) => (
  <Link className="row-link" to={`/nodes/${encodeURIComponent(name)}`}>
    {name}
  </Link>
)

export function NodeState({ node, newest }: { node: Node; newest: number }) {
  if (!node.live) return <State health="down">Offline</State>
  if (node.storage_fault !== null) return <State health="partial">Cannot write to disk</State>
  if (node.refusals.length) return <State health="partial">Rejected a change</State>
  if (node.applied_generation < newest) return <State health="partial">Behind</State>
  return <State health="up">Live</State>
}

const columnsFor = (newest: number, isShort: boolean): Column<Node>[] => {
  const all: Column<Node>[] = [
    {
      title: 'Node',
      className: 'a1',
      isRowHead: true,
      sortBy: ({ name }) => name,
      cell: ({ name }) => <NodeLink name={name} />,
    },
    {
      title: 'State',
      className: 'a2',
      cell: (node) => (
        <span className="two">
          <NodeState node={node} newest={newest} />
          {!isShort && <small>{node.storage_fault ?? node.refusals[0]?.reason}</small>}
        </span>
      ),
    },
    {
      title: 'Generation',
      className: 'number b1',
      sortBy: ({ applied_generation }) => applied_generation,
      cell: ({ applied_generation }) => (
        <>
          {count.format(applied_generation)}
          {applied_generation < newest && <span className="fine"> of {count.format(newest)}</span>}
        </>
      ),
    },
    {
      title: 'Last seen',
      className: 'b2',
      sortBy: ({ last_seen_at }) => Date.parse(last_seen_at),
      cell: ({ last_seen_at }) => <Ago at={last_seen_at} />,
    },
  ]
  if (isShort) return all
  return [
    ...all,
    {
      title: 'Records',
      className: 'number low',
      sortBy: ({ records }) => records,
      cell: ({ records }) => count.format(records),
    },
    { title: 'Version', className: 'low', cell: ({ version }) => <span className="mono">{version}</span> },
    {
      title: 'Started',
      className: 'low',
      sortBy: ({ started_at }) => Date.parse(started_at),
      cell: ({ started_at }) => <Ago at={started_at} />,
    },
  ]
}

type Props = { nodes: readonly Node[]; newest: number; isShort?: boolean; label?: string }

export function NodeTable({ nodes, newest, isShort = false, label = 'Edge nodes' }: Props) {
  if (nodes.length === 0)
    return (
      <div className="frame">
        <Empty title="No edge nodes yet">Changes are stored and applied when the first node starts.</Empty>
      </div>
    )
  return (
    <DataTable
      label={label}
      rows={nodes}
      keyOf={({ name }) => name}
      columns={columnsFor(newest, isShort)}
      initialSort="Node"
      isTwoLine={!isShort}
    />
  )
}
