import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useNavigate } from 'react-router'
import { answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { Describe } from '../describe.tsx'

type Refused = { hostport: string; reason: 'overlap' | 'public_suffix' }
type Edge = {
  id: string
  hostports: string[]
  refused_hostports?: Refused[]
  description?: string
  metadata?: string
}
type Props = { kind: 'tcp' | 'https'; edge: Edge }
const pathOf = { tcp: '/edges/tcp/{id}', https: '/edges/https/{id}' } as const

export function EdgeHead({ kind, edge }: Props) {
  const [open, setOpen] = useState<'describe' | 'delete'>()
  const close = () => setOpen(undefined)
  const name = edge.hostports.join(', ') || edge.id
  return (
    <div className="bar">
      <div>
        <nav aria-label="Breadcrumb" className="crumbs">
          <Link to="/edges">Edges</Link> <span aria-hidden="true">/</span> <strong className="mono">{name}</strong>
        </nav>
        <p className="soft">
          {edge.description} <span className="mono fine">{edge.id}</span>
        </p>
        {edge.refused_hostports?.map((refused) => (
          <RefusedHostport key={refused.hostport} {...refused} />
        ))}
      </div>
      <div className="actions">
        <Button onPress={() => setOpen('describe')}>Rename</Button>
        <Button onPress={() => setOpen('delete')}>Delete</Button>
      </div>
      {open === 'describe' && <Describe path={pathOf[kind]} what={edge} onClose={close} />}
      {open === 'delete' && <DeleteEdge kind={kind} edge={edge} name={name} onClose={close} />}
    </div>
  )
}

const reasons = {
  overlap: 'another account of this installation already had an overlapping one. Use another host name or port.',
  public_suffix: 'it is a wildcard directly under a public suffix. Use a wildcard under your own domain.',
}

function RefusedHostport({ hostport, reason }: Refused) {
  return (
    <p role="status">
      <Badge tone="refused">Not in force</Badge> <span className="mono">{hostport}</span>: {reasons[reason]}
    </p>
  )
}

function DeleteEdge({ kind, edge, name, onClose }: Props & { name: string; onClose: () => void }) {
  const navigate = useNavigate()
  const client = useQueryClient()
  const refresh = useRefresh()
  return (
    <Confirm
      title={`Delete ${name}?`}
      typeToConfirm={name}
      action="Delete edge"
      act={() => answerOf(api.DELETE(pathOf[kind], { params: { path: { id: edge.id } } }))}
      onDone={async () => {
        // Not read again while this page is still there: it is gone.
        client.removeQueries({ queryKey: ['get', pathOf[kind], { params: { path: { id: edge.id } } }] })
        await refresh('/edges')
        navigate('/edges')
      }}
      onClose={onClose}
    >
      <p>
        Traffic to {name} will be refused. {kind === 'https' && 'Its routes are deleted too.'}
      </p>
    </Confirm>
  )
}
