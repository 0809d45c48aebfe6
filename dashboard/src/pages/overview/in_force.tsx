import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { type TrafficType, traffic, trafficTypes } from '../../traffic.ts'
import { Badge } from '../../ui/badge.tsx'
import { Loaded } from '../../ui/loading.tsx'

type Restriction = Shapes['IpRestriction']
const count = new Intl.NumberFormat('en')

/** The first thing to know: for each kind of traffic, whether anything is refused, and what would be. */
export function InForce() {
  const restrictions = useQuery(queries.restrictions())
  return (
    <section aria-labelledby="in-force">
      <h2 id="in-force" className="for-readers">
        In force
      </h2>
      <Loaded query={restrictions} lines={5}>
        {(all) => (
          <div className="tiles">
            {trafficTypes.map((type) => (
              <Tile key={type} type={type} restrictions={all.filter((restriction) => restriction.type === type)} />
            ))}
          </div>
        )}
      </Loaded>
    </section>
  )
}

function Tile({ type, restrictions }: { type: TrafficType; restrictions: Restriction[] }) {
  const enforced = restrictions.filter((restriction) => restriction.enforced)
  const warning = restrictions.filter((restriction) => !restriction.enforced)
  return (
    <div className="card tile">
      <h3>
        {traffic[type].title}
        <State enforced={enforced.length} warning={warning.length} />
      </h3>
      <p className="soft">{sentenceOf(type, enforced.length, warning.length)}</p>
      <LastDay type={type} />
      <ul className="restriction-list">
        {[...enforced, ...warning].slice(0, 4).map(({ id, description, enforced }) => (
          <li key={id}>
            <Link to={`/restrictions/${id}`}>{description ?? id}</Link>{' '}
            <span className="fine">{enforced ? 'enforced' : 'warning only'}</span>
          </li>
        ))}
        {restrictions.length > 4 && (
          <li>
            <Link to="/restrictions">{`and ${restrictions.length - 4} more`}</Link>
          </li>
        )}
      </ul>
    </div>
  )
}

function LastDay({ type }: { type: TrafficType }) {
  const total = useQuery(queries.activity()).data?.total[type]
  if (!total || (total.refused === 0 && total.warned === 0)) return null
  return (
    <p className="fine">
      {[
        total.refused && `${count.format(total.refused)} refused`,
        total.warned && `${count.format(total.warned)} ${total.warned === 1 ? 'warning' : 'warnings'}`,
      ]
        .filter(Boolean)
        .join(', ')}{' '}
      in the last 24 hours
    </p>
  )
}

function State({ enforced, warning }: { enforced: number; warning: number }) {
  if (enforced) return <Badge tone="allowed">Enforced</Badge>
  if (warning) return <Badge tone="warned">Warning only</Badge>
  return <Badge tone="neutral">Open</Badge>
}

function sentenceOf(type: TrafficType, enforced: number, warning: number): string {
  const what = traffic[type].what
  if (enforced && warning) return `Only allowed addresses can reach ${what}. Another restriction only warns.`
  if (enforced) return `Only allowed addresses can reach ${what}.`
  if (warning) return `Every address can reach ${what}. Addresses that would be refused are counted.`
  return `Every address can reach ${what}.`
}
