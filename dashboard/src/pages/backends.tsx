import { PageHeader } from '../ui/page_header.tsx'
import { BackendGroups } from './edges/backend_groups.tsx'
import { Backends } from './edges/backends.tsx'
import { BackendTraffic } from './statistics/backend_traffic.tsx'

export function BackendsPage() {
  return (
    <>
      <PageHeader title="Backends" summary="Edges and routes forward traffic to backends." />
      <Backends />
      <BackendGroups />
      <BackendTraffic />
    </>
  )
}
