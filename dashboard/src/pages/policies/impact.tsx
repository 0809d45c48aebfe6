import { queryOptions, type UseQueryResult } from '@tanstack/react-query'
import { Link } from 'react-router'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { asText, type Rule } from '../../rules.ts'
import { traffic } from '../../traffic.ts'
import { Badge } from '../../ui/badge.tsx'
import { Icon } from '../../ui/icons.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { Ago } from '../../ui/time.tsx'
import { type Names, useNames } from '../traffic/names.ts'

type Data = Shapes['IpPolicyImpact']
type OnTraffic = Data['traffic'][number]
type Flipped = OnTraffic['newly_refused']

const count = new Intl.NumberFormat('en')

/** Addresses of the last week that these rules would refuse or let in. */
export const impactOf = (policyId: string, rules: readonly Rule[]) =>
  queryOptions({
    queryKey: ['post', '/ip_policies/{id}/impact', policyId, rules],
    // The key would contain up to 100,000 rules, which the library would compare and keep, so use a hash.
    queryKeyHashFn: () => `impact ${policyId} ${rules.length} ${versionOf(rules)}`,
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: () =>
      answerOf(api.POST('/ip_policies/{id}/impact', { params: { path: { id: policyId } }, ...asText(rules) })),
  })

/** Before anything is saved. */
export function Impact({ query }: { query: UseQueryResult<Data, unknown> }) {
  return (
    <section className="impact" aria-label="Impact">
      <h3>Impact</h3>
      <Loaded query={query} lines={4}>
        {(data) => <Shown data={data} />}
      </Loaded>
    </section>
  )
}

const versions = new WeakMap<readonly Rule[], number>()
let lastVersion = 0
function versionOf(rules: readonly Rule[]): number {
  const version = versions.get(rules) ?? ++lastVersion
  versions.set(rules, version)
  return version
}

function Shown({ data }: { data: Data }) {
  if (data.traffic.length === 0)
    return <p className="soft">Nothing uses this policy, so it does not affect any traffic.</p>
  return (
    <>
      {data.refuses_caller && (
        <p className="note warned with-icon">
          <Icon name="warned" />
          <span>Your own address would be refused. You will be asked before the rules are saved.</span>
        </p>
      )}
      {data.traffic.map((row) => (
        <OnTrafficShown key={`${row.type} ${row.by} ${row.enforced}`} row={row} />
      ))}
    </>
  )
}

function OnTrafficShown({ row }: { row: OnTraffic }) {
  const where = row.by === 'module' ? 'Edges and routes with this policy' : traffic[row.type].title
  const changes = row.newly_refused.total + row.newly_allowed.total
  return (
    <div className="impact-row">
      <p>
        <strong>{where}</strong>{' '}
        {row.enforced ? <Badge tone="allowed">Enforced</Badge> : <Badge tone="warned">Warns only</Badge>}
      </p>
      {changes === 0 ? (
        <NoChange row={row} />
      ) : (
        <div className="columns tight">
          <Addresses
            tone="refused"
            title={row.enforced ? 'would be refused' : 'would be warned about'}
            flipped={row.newly_refused}
            type={row.type}
          />
          <Addresses
            tone="allowed"
            title={row.enforced ? 'would be allowed' : 'would no longer be warned about'}
            flipped={row.newly_allowed}
            type={row.type}
          />
        </div>
      )}
      <Unknown row={row} />
      <p className="fine">{row.looked_at}</p>
    </div>
  )
}

/** A tick would claim "no change" although the allowed addresses are unknown. */
function NoChange({ row }: { row: OnTraffic }) {
  if (row.addresses === 0 && row.let_in_known !== 'all') return null
  const seen = `${count.format(row.addresses)} ${row.addresses === 1 ? 'address' : 'addresses'}`
  return (
    <p className="with-icon">
      {row.let_in_known !== 'none' && <Icon name="allowed" />}
      {row.addresses === 0 ? 'No addresses were seen there in the last week.' : `No change for the ${seen} known.`}
    </p>
  )
}

/** Newly refused addresses are known only among those recorded as let in. */
function Unknown({ row }: { row: OnTraffic }) {
  if (!isPartlyUnknown(row)) return null
  const places = row.unknown_at.length
  return (
    <p className="note warned with-icon">
      <Icon name="warned" />
      <span>
        {row.let_in_known === 'none'
          ? 'Unknown which addresses would be refused: none that were let in have been recorded in the last week.'
          : `Unknown for ${count.format(places)} ${places === 1 ? 'edge or route that has' : 'edges and routes that have'} not reported any address that they let in.`}
      </span>
    </p>
  )
}

export const isPartlyUnknown = ({ let_in_known, unknown_at }: OnTraffic): boolean =>
  let_in_known === 'none' || unknown_at.length > 0

/** A route's URI contains its edge. */
function placeOf({ id, uri }: Shapes['Ref'], names: Names): string {
  const [, edge] = /\/edges\/https\/(\w+)\/routes\//.exec(uri) ?? []
  return edge ? `${names.edge(edge)} ${names.route(id) ?? id}` : names.edge(id)
}

type AddressesProps = { tone: 'refused' | 'allowed'; title: string; flipped: Flipped; type: OnTraffic['type'] }

function Addresses({ tone, title, flipped, type }: AddressesProps) {
  const names = useNames()
  if (flipped.total === 0) return null
  return (
    <div>
      <p>
        <Badge tone={tone}>
          {count.format(flipped.total)} {title}
        </Badge>
      </p>
      <ul className="excerpt">
        {flipped.addresses.slice(0, 8).map(({ ip, last_seen_at, target }) => (
          <li key={`${ip} ${target?.id}`}>
            <Link className="mono" to={`/check?ip=${encodeURIComponent(ip)}&target=${target?.id ?? type}`}>
              {ip}
            </Link>{' '}
            <span className="fine">
              {target && `at ${placeOf(target, names)}, `}
              <Ago at={last_seen_at} />
            </span>
          </li>
        ))}
        {flipped.total > 8 && <li className="soft">and {count.format(flipped.total - 8)} more</li>}
      </ul>
    </div>
  )
}
