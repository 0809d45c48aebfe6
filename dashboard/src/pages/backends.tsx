import { useParams } from 'react-router'
import { PageHeader } from '../ui/page_header.tsx'
import { BackendDetail } from './backends/detail.tsx'
import { BackendGroups } from './edges/backend_groups.tsx'
import { Backends } from './edges/backends.tsx'

export function BackendsPage() {
  const { id } = useParams()
  if (id) return <BackendDetail key={id} id={id} />
  return (
    <>
      <PageHeader title="Backends" summary="Edges and routes forward traffic to backends." />
      <Backends />
      <BackendGroups />
    </>
  )
}
