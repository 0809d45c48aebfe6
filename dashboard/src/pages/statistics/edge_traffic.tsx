import type { Shapes } from '../../api/client.ts'
import { Choice } from '../../ui/choice.tsx'
import { useUrlState } from '../../ui/use_url_state.ts'
import { TrafficFigures } from './traffic_figures.tsx'

/** Figures of the edge or of one of its routes. */
export function EdgeTraffic({ edge }: { edge: Pick<Shapes['HttpsEdge'], 'id' | 'routes'> }) {
  const [wanted, setWanted] = useUrlState<string>('route', '')
  const route = edge.routes.find(({ id }) => id === wanted)
  return (
    <TrafficFigures
      scope={route ? { edge_id: edge.id, route_id: route.id } : { edge_id: edge.id }}
      action={
        <Choice
          label="Route"
          labelHidden
          value={route?.id ?? ''}
          onChange={setWanted}
          options={[
            { value: '', label: 'All routes' },
            ...edge.routes.map(({ id, match }) => ({ value: id, label: match })),
          ]}
        />
      }
    />
  )
}
