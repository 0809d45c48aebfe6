import { $api } from '../../api/client.ts'
import { Loaded } from '../../ui/loading.tsx'
import { EdgeHead } from './head.tsx'
import { BackendRow, RestrictionRow } from './modules.tsx'

export function TcpDetail({ id }: { id: string }) {
  const found = $api.useQuery('get', '/edges/tcp/{id}', { params: { path: { id } } })
  return (
    <Loaded query={found} lines={6}>
      {(edge) => {
        const place = { name: edge.hostports.join(', ') || edge.id, edgeId: edge.id }
        return (
          <>
            <EdgeHead kind="tcp" edge={edge} />
            <section className="card" aria-label="Modules">
              <div className="body">
                <BackendRow place={place} module={edge.backend} />
                <RestrictionRow place={place} module={edge.ip_restriction} />
              </div>
            </section>
          </>
        )
      }}
    </Loaded>
  )
}
