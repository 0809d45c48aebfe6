import { useQuery } from '@tanstack/react-query'
import { queries } from '../../api/queries.ts'
import { Loaded } from '../../ui/loading.tsx'
import { EdgeHead } from './head.tsx'
import { BackendRow, RestrictionRow } from './modules.tsx'

export function TcpDetail({ id }: { id: string }) {
  const edges = useQuery(queries.tcpEdges())
  return (
    <Loaded query={edges} lines={6}>
      {(all) => {
        const edge = all.find((candidate) => candidate.id === id)
        if (!edge) return <p className="card empty">This edge is not there any more.</p>
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
