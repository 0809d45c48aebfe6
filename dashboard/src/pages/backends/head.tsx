import { useState } from 'react'
import { useNavigate } from 'react-router'
import { Button } from '../../ui/button.tsx'
import { CopyId } from '../../ui/copy_id.tsx'
import { PageMenu } from '../../ui/more_menu.tsx'
import { PageHeader } from '../../ui/page_header.tsx'
import { StatusBadge } from '../../ui/status.tsx'
import { DeleteGroup, GroupForm } from '../edges/backend_groups.tsx'
import { kindLabels } from '../edges/backend_options.ts'
import { BackendForm, DeleteBackend } from '../edges/backends.tsx'
import { checkText } from '../edges/health_check.tsx'
import { AddServer } from './add_server.tsx'
import { type Backend, nameOf } from './backend.tsx'
import type { Uses } from './use_uses.ts'

type Props = { backend: Backend; uses: Uses | null | undefined }

export function BackendHead({ backend, uses }: Props) {
  const [open, setOpen] = useState<'add' | 'edit' | 'delete'>()
  const navigate = useNavigate()
  const close = () => setOpen(undefined)
  const onDeleted = () => void navigate('/backends')
  return (
    <>
      <PageHeader
        title={nameOf(backend)}
        parent={{ to: '/backends', name: 'Backends' }}
        status={backend.kind !== 'http_response' && <StatusBadge status={backend.backend.status} />}
        meta={
          <>
            {factsOf(backend).map((fact) => (
              <span key={fact}>{fact}</span>
            ))}
            <CopyId id={backend.backend.id} />
          </>
        }
      >
        {backend.kind !== 'http_response' && (
          <Button kind="primary" icon="plus" isDisabled={!uses} onPress={() => setOpen('add')}>
            Add server
          </Button>
        )}
        <PageMenu
          groups={() => [
            {
              entries: [
                { label: 'Edit…', icon: 'edit', onAction: () => setOpen('edit') },
                { label: 'Delete…', icon: 'trash', isDanger: true, onAction: () => setOpen('delete') },
              ],
            },
          ]}
        />
      </PageHeader>
      {open === 'add' && uses && <AddServer backend={backend} uses={uses} onClose={close} />}
      {open === 'edit' &&
        (backend.kind === 'static' ? (
          <BackendForm backend={backend.backend} onClose={close} />
        ) : (
          <GroupForm kind={backend.kind} group={backend} onClose={close} />
        ))}
      {open === 'delete' &&
        (backend.kind === 'static' ? (
          <DeleteBackend backend={backend.backend} onClose={close} onDeleted={onDeleted} />
        ) : (
          <DeleteGroup group={backend} onClose={close} onDeleted={onDeleted} />
        ))}
    </>
  )
}

function factsOf(backend: Backend): string[] {
  if (backend.kind !== 'static') return [kindLabels[backend.kind]]
  const { address, description, tls, protocol, send_proxy_protocol, health_check } = backend.backend
  return [
    ...(description ? [address] : []),
    tls.enabled ? 'TLS, verified' : 'No TLS',
    protocol === 'http2' ? 'HTTP/2' : 'HTTP/1.1',
    ...(send_proxy_protocol ? ['PROXY protocol'] : []),
    health_check ? checkText(health_check) : 'No check of its own',
  ]
}
