import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { type Api, type Shapes, tryOut } from './api/client.ts'
import { isLockout } from './lockout.tsx'
import { type Names, useNames } from './pages/traffic/names.ts'
import { Badge } from './ui/badge.tsx'
import { Icon } from './ui/icons.tsx'
import { Skeleton } from './ui/loading.tsx'
import { Ago } from './ui/time.tsx'

type Impact = Shapes['ChangeImpact']
type Place = Shapes['PlaceImpact']
type Affected = Place['newly_refused']

const count = new Intl.NumberFormat('en')

/** Previews the effect of a change. `of`: the values that it sends, as the query's key. */
export const useTrial = (of: readonly unknown[], change: ((on: Api) => Promise<unknown>) | undefined) =>
  useQuery({
    queryKey: ['trial', ...of],
    enabled: change !== undefined,
    queryFn: () => (change ? tryOut(change) : undefined),
    placeholderData: keepPreviousData,
    retry: false,
    gcTime: 0,
  })

type Props = { of: readonly unknown[]; change: ((on: Api) => Promise<unknown>) | undefined }

/**
 * In a dialog: addresses of the last week that the change would refuse or let in. Its space is reserved, so that no
 * button moves.
 */
export function TrialImpact({ of, change }: Props) {
  const trial = useTrial(of, change)
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard
    <section className="impact trial" aria-label="Impact" aria-busy={trial.isFetching} tabIndex={0}>
      <h3>Impact</h3>
      {change ? (
        <>
          {trial.isPending && <Skeleton lines={2} />}
          {trial.isError && <Untold error={trial.error} />}
          {trial.data && <ImpactShown impact={trial.data.impact} />}
        </>
      ) : (
        <p className="soft">Make a change to see which addresses it would refuse or let in.</p>
      )}
    </section>
  )
}

/** Saving reports the problem again, with ways to proceed. */
function Untold({ error }: { error: unknown }) {
  return (
    <p className="note warned with-icon">
      <Icon name="warned" />
      <span>
        {isLockout(error)
          ? 'Your own address would be refused. You will be asked before anything is saved.'
          : `The impact is unknown: ${error instanceof Error ? error.message : 'the service did not answer.'}`}
      </span>
    </p>
  )
}

export function ImpactShown({ impact }: { impact: Impact }) {
  const { places, more_places } = impact
  if (places.length === 0)
    return (
      <p className="with-icon">
        <Icon name="allowed" />
        No address would be refused or let in: this decides nothing about addresses.
      </p>
    )
  return (
    <>
      {places.map((place) => (
        <PlaceShown key={place.id ?? place.type} place={place} />
      ))}
      {more_places > 0 && <p className="soft">and {count.format(more_places)} more edges and routes</p>}
    </>
  )
}

const titles = { api: 'API', dashboard: 'Dashboard', agent: 'Agents', tcp_edge: 'TCP edge', route: 'Route' } as const
const becoming = { changed: undefined, created: 'new', deleted: 'deleted' } as const

/** A route's URI contains its edge. */
function nameOf({ type, id, uri }: Place, names: Names): string {
  const [, edge] = /\/edges\/https\/(\w+)\/routes\//.exec(uri ?? '') ?? []
  if (edge) return `${names.edge(edge)} ${names.route(id ?? '') ?? ''}`.trim()
  return id ? names.edge(id) : titles[type]
}

function PlaceShown({ place }: { place: Place }) {
  const names = useNames()
  const { newly_refused, newly_allowed, newly_warned, evidence, becomes } = place
  const changes = newly_refused.total + newly_allowed.total + newly_warned.total
  return (
    <div className="impact-row">
      <p>
        <strong>{nameOf(place, names)}</strong>{' '}
        {becoming[becomes] && <span className="soft">({becoming[becomes]}) </span>}
        {evidence === 'none' && <Badge tone="warned">Unknown</Badge>}
        {changes === 0 && evidence !== 'none' && <span className="soft">no change</span>}
      </p>
      {changes > 0 && (
        <div className="columns tight">
          <Addresses tone="refused" title="would be refused" place={place} affected={newly_refused} />
          <Addresses tone="allowed" title="would be let in" place={place} affected={newly_allowed} />
          <Addresses tone="warned" title="would be warned of" place={place} affected={newly_warned} />
        </div>
      )}
      {place.unknown_because && (
        <p className="note warned with-icon">
          <Icon name="warned" />
          <span>{place.unknown_because}</span>
        </p>
      )}
      {place.addresses > 0 && (
        <p className="fine">
          Of {count.format(place.addresses)} {place.addresses === 1 ? 'address' : 'addresses'} seen there in the last 7
          days
        </p>
      )}
    </div>
  )
}

type AddressesProps = { tone: 'refused' | 'allowed' | 'warned'; title: string; place: Place; affected: Affected }

function Addresses({ tone, title, place: { id, type }, affected: { total, addresses } }: AddressesProps) {
  if (total === 0) return null
  return (
    <div>
      <p>
        <Badge tone={tone}>
          {count.format(total)} {title}
        </Badge>
      </p>
      <ul className="excerpt">
        {addresses.slice(0, 8).map(({ ip, last_seen_at }) => (
          <li key={ip}>
            <Link className="mono" to={`/check?ip=${encodeURIComponent(ip)}&target=${id ?? type}`}>
              {ip}
            </Link>{' '}
            <span className="fine">
              <Ago at={last_seen_at} />
            </span>
          </li>
        ))}
        {total > 8 && <li className="soft">and {count.format(total - 8)} more</li>}
      </ul>
    </div>
  )
}
