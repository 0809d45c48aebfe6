import { useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { Link, useNavigate } from 'react-router'
import { type Api, answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { TrialImpact } from '../../change_impact.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { CopyId } from '../../ui/copy_id.tsx'
import { PageMenu } from '../../ui/more_menu.tsx'
import { PageHeader } from '../../ui/page_header.tsx'
import { Describe } from '../describe.tsx'
import { EditCells, ServedBy, useChoiceOfCells } from './cells.tsx'
import { EditHostports } from './edit_hostports.tsx'

type Refused = { hostport: string; reason: 'overlap' | 'public_suffix' | 'domain_owned' }
type Edge = {
  id: string
  hostports: string[]
  cells: string[] | null
  refused_hostports?: Refused[]
  description?: string
  metadata?: string
}
type Props = { kind: 'tcp' | 'https'; edge: Edge }
const pathOf = { tcp: '/edges/tcp/{id}', https: '/edges/https/{id}' } as const

/** `children`: the actions of the page. */
export function EdgeHead({ kind, edge, status, children }: Props & { status?: ReactNode; children?: ReactNode }) {
  const [open, setOpen] = useState<'describe' | 'hostports' | 'cells' | 'delete'>()
  const hasChoice = useChoiceOfCells().length > 0
  const close = () => setOpen(undefined)
  const name = edge.hostports.join(', ') || edge.id
  return (
    <>
      <PageHeader
        title={edge.description ?? name}
        parent={{ to: '/edges', name: 'Edges' }}
        status={status}
        meta={
          <>
            <span>{kind === 'tcp' ? 'TCP edge' : 'HTTPS edge'}</span>
            {edge.hostports.map((hostport) => (
              <span key={hostport} className="mono">
                {hostport}
              </span>
            ))}
            <ServedBy cells={edge.cells} />
            <Link to={`/traffic?edge=${edge.id}`}>Traffic of this edge</Link>
            <CopyId id={edge.id} />
          </>
        }
      >
        {children}
        <PageMenu
          groups={() => [
            {
              entries: [
                { label: 'Rename', icon: 'edit', onAction: () => setOpen('describe') },
                { label: 'Edit hostports…', icon: 'edges', onAction: () => setOpen('hostports') },
                ...(hasChoice
                  ? [{ label: 'Edit cells…', icon: 'nodes', onAction: () => setOpen('cells') } as const]
                  : []),
                { label: 'Delete edge…', icon: 'trash', isDanger: true, onAction: () => setOpen('delete') },
              ],
            },
          ]}
        />
      </PageHeader>
      {edge.refused_hostports?.map((refused) => (
        <RefusedHostport key={refused.hostport} {...refused} />
      ))}
      {open === 'describe' && <Describe path={pathOf[kind]} what={edge} onClose={close} />}
      {open === 'hostports' && <EditHostports path={pathOf[kind]} edge={edge} onClose={close} />}
      {open === 'cells' && <EditCells path={pathOf[kind]} edge={edge} onClose={close} />}
      {open === 'delete' && <DeleteEdge kind={kind} edge={edge} name={name} onClose={close} />}
    </>
  )
}

const reasons = {
  overlap: 'another account of this installation already had an overlapping one. Use another host name or port.',
  public_suffix: 'it is a wildcard directly under a public suffix. Use a wildcard under your own domain.',
  domain_owned:
    'another account has verified its domain. If the domain is yours, reserve and verify it in this account.',
}

function RefusedHostport({ hostport, reason }: Refused) {
  return (
    <p role="status" className="note refused">
      <Badge tone="refused">Not in force</Badge>{' '}
      <span>
        <span className="mono">{hostport}</span>: {reasons[reason]}
      </span>
    </p>
  )
}

function DeleteEdge({ kind, edge, name, onClose }: Props & { name: string; onClose: () => void }) {
  const navigate = useNavigate()
  const client = useQueryClient()
  const refresh = useRefresh()
  const remove = (on: Api) => answerOf(on.DELETE(pathOf[kind], { params: { path: { id: edge.id } } }))
  return (
    <Confirm
      canDraft
      title={`Delete ${name}?`}
      typeToConfirm={name}
      action="Delete edge"
      act={() => remove(api)}
      onDone={async () => {
        // Removed first, so that this page does not read the deleted edge again.
        client.removeQueries({ queryKey: ['get', pathOf[kind], { params: { path: { id: edge.id } } }] })
        await refresh('/edges')
        navigate('/edges')
      }}
      onClose={onClose}
    >
      <p>
        Traffic to {name} will be refused. {kind === 'https' && 'Its routes are deleted too.'}
      </p>
      <TrialImpact of={[edge.id, 'delete']} change={remove} />
    </Confirm>
  )
}
