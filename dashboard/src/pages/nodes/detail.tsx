import type { ReactNode } from 'react'
import type { Shapes } from '../../api/client.ts'
import { DataTable } from '../../ui/data_table.tsx'
import { PageHeader } from '../../ui/page_header.tsx'
import { Section } from '../../ui/section.tsx'
import { Empty } from '../../ui/states.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'
import { OpenRollouts } from '../rollouts/open_rollouts.tsx'
import { type Node, NodeState } from './table.tsx'

const count = new Intl.NumberFormat('en')
type Refusal = Node['refusals'][number]

/** What one node enforces, how far it is behind, and what it rejected. */
export function NodeDetail({ name, list }: { name: string; list: Shapes['EdgeNodeList'] }) {
  const node = list.edge_nodes.find((candidate) => candidate.name === name)
  return (
    <>
      <PageHeader
        title={name}
        parent={{ to: '/nodes', name: 'Nodes' }}
        status={node && <NodeState node={node} />}
        summary={node?.status?.reason}
      />
      {node && <OpenRollouts only={({ cell }) => cell === node.cell} />}
      {node ? (
        <Shown node={node} newest={list.newest_generation} />
      ) : (
        <div className="frame">
          <Empty title="No node has this name">It may have been renamed, or has not reported for a long time.</Empty>
        </div>
      )}
    </>
  )
}

function Shown({ node, newest }: { node: Node; newest: number }) {
  return (
    <>
      <div className="frame">
        <dl className="stats">
          <Fact name="In force" value={count.format(node.applied_generation)}>
            {`of generation ${count.format(newest)}`}
          </Fact>
          <Fact name="Behind" value={count.format(Math.max(0, newest - node.applied_generation))}>
            generations of the installation
          </Fact>
          <Fact name="Records" value={count.format(node.records)}>
            edges, policies and restrictions
          </Fact>
          {node.certificates && (
            <Fact name="Certificates" value={count.format(node.certificates.names)}>
              {certificatesText(node)}
            </Fact>
          )}
          <Fact name="Cell" value={node.cell}>
            {node.joined_at === null ? 'connects with a password' : <Joined at={node.joined_at} />}
          </Fact>
          <Fact name="Version" value={node.version}>
            started <Ago at={node.started_at} />
          </Fact>
          <Fact name="Last report" value={<Ago at={node.last_seen_at} />}>
            {node.live ? 'reporting' : 'no longer reporting'}
          </Fact>
        </dl>
      </div>
      <Section title="Rejected records" note="the latest; the node keeps the previous version of each">
        {node.refusals.length === 0 ? (
          <div className="frame">
            <Empty title="None">The node took every record of this account.</Empty>
          </div>
        ) : (
          <DataTable
            label="Rejected records"
            rows={node.refusals}
            keyOf={({ key, generation, at }) => `${key} ${generation} ${at}`}
            columns={refusalColumns}
          />
        )}
      </Section>
    </>
  )
}

/** Whether the node can serve all certificates, and when the first expires. */
function certificatesText({ certificates, certificate_key }: Node): ReactNode {
  if (certificate_key && !certificate_key.accepted) return 'names; its key is not accepted yet'
  if (certificates?.unusable) return `names; ${count.format(certificates.unusable)} certificates cannot be used`
  if (certificates?.missing_names)
    return `names; ${count.format(certificates.missing_names)} names of edges have no certificate`
  if (!certificates?.first_expires_at) return 'names'
  return (
    <>
      names; the first expires <Ago at={certificates.first_expires_at} />
    </>
  )
}

const Joined = ({ at }: { at: string }) => (
  <>
    joined <Ago at={at} />
  </>
)

type FactProps = { name: string; value: ReactNode; children: ReactNode }

function Fact({ name, value, children }: FactProps) {
  return (
    <div>
      <dt className="stat-name">{name}</dt>
      <dd className="stat-figure">{value}</dd>
      <dd className="fine">{children}</dd>
    </div>
  )
}

const refusalColumns: readonly Column<Refusal>[] = [
  { title: 'Record', className: 'a1', isRowHead: true, cell: ({ key }) => <span className="mono">{key}</span> },
  { title: 'Reason', className: 'b1', cell: ({ reason }) => reason },
  {
    title: 'Generation',
    className: 'number c1',
    cell: ({ generation }) => (generation === null ? '–' : count.format(generation)),
  },
  { title: 'At', className: 'a2', cell: ({ at }) => <Ago at={at} /> },
]
