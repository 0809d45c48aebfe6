import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { DataTable } from '../../ui/data_table.tsx'
import { Empty } from '../../ui/states.tsx'
import { rankOf, StatusState, wordOf } from '../../ui/status.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'

export type Node = Shapes['EdgeNode']
const count = new Intl.NumberFormat('en')

const NodeLink = ({ name }: { name: string }) => (
  <Link className="row-link" to={`/nodes/${encodeURIComponent(name)}`}>
    {name}
  </Link>
)

/** A healthy node is called live everywhere. */
export const NodeState = ({ node: { status } }: { node: Node }) => (
  <StatusState status={status}>{nodeWords[status?.code ?? ''] ?? wordOf(status)}</StatusState>
)
const nodeWords: Readonly<Record<string, string>> = {
  ok: 'Live',
  node_away: 'Offline',
  node_behind: 'Behind',
  storage_fault: 'Cannot write to disk',
  proxy_differs: 'HAProxy was changed',
  record_refused: 'Rejected a change',
  node_key_waiting: 'Key not accepted',
  certificate_missing: 'Certificates missing',
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
      sortBy: ({ status }) => rankOf(status),
      cell: (node) => (
        <span className="two">
          <NodeState node={node} />
          {!isShort && node.status?.state !== 'up' && <small>{node.refusals[0]?.reason ?? node.status?.reason}</small>}
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
