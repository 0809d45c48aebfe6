import { useQuery } from '@tanstack/react-query'
import { queries } from '../../api/queries.ts'
import { Choice } from '../../ui/choice.tsx'
import { useUrlState } from '../../ui/use_url_state.ts'
import { TrafficFigures } from './traffic_figures.tsx'

/** Figures of one backend or group: the one that the URL has, or the first. */
export function BackendTraffic() {
  const [wanted, setWanted] = useUrlState<string>('backend', '')
  const [servers, weighted, failover] = [
    useQuery(queries.backends()).data ?? [],
    useQuery(queries.weightedBackends()).data ?? [],
    useQuery(queries.failoverBackends()).data ?? [],
  ]
  const options = [
    ...servers.map(({ id, address, description }) => ({ value: id, label: description ?? address ?? id })),
    ...[...weighted, ...failover].map(({ id, description }) => ({ value: id, label: description ?? id })),
  ]
  const chosen = options.find(({ value }) => value === wanted) ?? options[0]
  if (!chosen) return null
  return (
    <TrafficFigures
      scope={{ backend_id: chosen.value }}
      action={<Choice label="Backend" labelHidden value={chosen.value} onChange={setWanted} options={options} />}
    />
  )
}
