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
/** By the prefix of the id. A fixed response has no upstreams. */
const paths = {
  bkdst: '/backends/static/{id}/health',
  bkdwd: '/backends/weighted/{id}/health',
  bkdfo: '/backends/failover/{id}/health',
} as const
const isKnown = (prefix: string): prefix is keyof typeof paths => prefix in paths

/** How the upstreams of a backend are, as edge nodes see them. Nothing while nodes have nothing to report. */
export function BackendHealth({ id }: { id: string }) {
  const [prefix = ''] = id.split('_')
  return isKnown(prefix) ? <UpstreamHealth id={id} path={paths[prefix]} /> : null
}

function UpstreamHealth({ id, path }: { id: string; path: (typeof paths)[keyof typeof paths] }) {
  const found = $api.useQuery('get', path, { params: { path: { id } } }, { refetchInterval: everyMs })
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
