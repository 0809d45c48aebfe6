import { $api, type Shapes } from '../../api/client.ts'
import { Badge, type Tone } from '../../ui/badge.tsx'
import { Ago } from '../../ui/time.tsx'

type Address = Shapes['BackendAddressHealth']

const words: Record<Address['status'], [Tone, string]> = {
  up: ['allowed', 'Up'],
  down: ['refused', 'Down'],
  failing: ['refused', 'Failing'],
}
const everyMs = 10_000

/** How the upstreams of a backend are, as edge nodes see them. Nothing while nodes have nothing to report. */
export function BackendHealth({ id }: { id: string }) {
  const found = $api.useQuery(
    'get',
    '/backends/static/{id}/health',
    { params: { path: { id } } },
    { refetchInterval: everyMs },
  )
  const addresses = found.data?.addresses ?? []
  if (addresses.length === 0) return null
  return (
    <ul className="fine" aria-label="Health">
      {addresses.map((each) => {
        const [tone, word] = words[each.status]
        return (
          <li key={`${each.backend.id} ${each.node} ${each.address}`}>
            <Badge tone={tone}>{word}</Badge> <span className="mono">{each.address}</span> on {each.node} since{' '}
            <Ago at={each.since} />
            {each.reason && `: ${each.reason}`}
          </li>
        )
      })}
    </ul>
  )
}
