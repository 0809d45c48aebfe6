import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { queries } from '../../api/queries.ts'
import { traffic } from '../../traffic.ts'
import { Badge } from '../../ui/badge.tsx'

type Use = { to: string; name: string; how: string; isEnforced: boolean }
type Module = { ip_policies: readonly { id: string }[] } | null

/** Everything that a change of this policy changes. */
export function useUses(policyId: string): Use[] | undefined {
  const restrictions = useQuery(queries.restrictions()).data
  const tcp = useQuery(queries.tcpEdges()).data
  const https = useQuery(queries.httpsEdges()).data
  if (!restrictions || !tcp || !https) return undefined
  const uses = (module: Module) => module?.ip_policies.some(({ id }) => id === policyId) ?? false
  return [
    ...restrictions.filter(uses).map(({ id, description, type, enforced }) => ({
      to: `/restrictions/${id}`,
      name: description ?? id,
      how: `${traffic[type].title}, ${enforced ? 'enforced' : 'warns only'}`,
      isEnforced: enforced,
    })),
    ...tcp
      .filter(({ ip_restriction }) => uses(ip_restriction))
      .map(({ id, description, hostports, ip_restriction }) => ({
        to: `/edges/${id}`,
        name: description ?? hostports.join(', '),
        how: 'TCP edge',
        isEnforced: ip_restriction?.enabled ?? false,
      })),
    ...https.flatMap(({ id, hostports, routes }) =>
      routes
        .filter(({ ip_restriction }) => uses(ip_restriction))
        .map(({ match, ip_restriction }) => ({
          to: `/edges/${id}`,
          name: `${hostports[0] ?? id}${match}`,
          how: 'route',
          isEnforced: ip_restriction?.enabled ?? false,
        })),
    ),
  ]
}

/** Whether anything refuses by this policy. */
export function PolicyState({ policyId }: { policyId: string }) {
  const uses = useUses(policyId)
  if (!uses) return null
  if (uses.some(({ isEnforced }) => isEnforced)) return <Badge tone="allowed">Enforced</Badge>
  return uses.length > 0 ? <Badge tone="warned">Warns only</Badge> : <Badge tone="neutral">Not in use</Badge>
}

export function Uses({ policyId }: { policyId: string }) {
  const uses = useUses(policyId)
  if (!uses) return <span className="soft">…</span>
  if (uses.length === 0) return <span className="soft">Nothing yet</span>
  return (
    <ul className="uses">
      {uses.slice(0, 6).map(({ to, name, how }) => (
        <li key={`${to} ${name}`}>
          <Link to={to}>{name}</Link> <span className="fine">{how}</span>
        </li>
      ))}
      {uses.length > 6 && <li className="fine">and {uses.length - 6} more</li>}
    </ul>
  )
}
