import { Link } from 'react-router'
import { $api } from '../../api/client.ts'
import { Icon } from '../../ui/icons.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { Ago } from '../../ui/time.tsx'
import type { Restriction } from './change.ts'

const count = new Intl.NumberFormat('en')
const timesOf = (times: number): string => (times === 1 ? 'once' : `${count.format(times)} times`)

const useWarnings = (id: string) =>
  $api.useQuery(
    'get',
    '/ip_restrictions/{id}/warnings',
    { params: { path: { id }, query: { limit: 100 } } },
    { refetchInterval: 4_000 },
  )

/** How many addresses it would refuse, for a row. */
export function WouldRefuse({ restriction: { id } }: { restriction: Restriction }) {
  const warnings = useWarnings(id).data
  if (!warnings) return null
  const { length } = warnings.warnings
  if (length === 0) return <span className="soft">No address seen</span>
  return `${length}${warnings.next_page_uri ? '+' : ''} ${length === 1 ? 'address' : 'addresses'}`
}

/** Shows which addresses it would refuse, from the warnings recorded so far. */
export function Evidence({ restriction: { id, type, enforced } }: { restriction: Restriction }) {
  const warnings = useWarnings(id)
  return (
    <section className="evidence" aria-label="Evidence">
      <h4>{enforced ? 'Earlier warnings' : 'Would have been refused'}</h4>
      <Loaded query={warnings} lines={3}>
        {({ warnings: rows, next_page_uri }) =>
          rows.length === 0 ? (
            <p className="soft with-icon">
              <Icon name="allowed" />
              {enforced ? 'No warnings recorded.' : 'No recorded address would be refused.'}
            </p>
          ) : (
            <>
              <p>
                <strong>
                  {rows.length}
                  {next_page_uri ? '+' : ''} {rows.length === 1 ? 'address' : 'addresses'}
                </strong>
                , {timesOf(rows.reduce((sum, row) => sum + row.count, 0))}
              </p>
              <table className="fit">
                <thead>
                  <tr>
                    <th scope="col">Address</th>
                    <th scope="col" className="number">
                      Times
                    </th>
                    <th scope="col">Last</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.slice(0, 6).map(({ source_ip, count: times, last_at }) => (
                    <tr key={source_ip}>
                      <td className="mono">
                        <Link to={`/check?ip=${encodeURIComponent(source_ip)}&target=${type}`}>{source_ip}</Link>
                      </td>
                      <td className="number">{count.format(times)}</td>
                      <td>
                        <Ago at={last_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
              {rows.length > 6 && <p className="fine">and {rows.length - 6} more</p>}
            </>
          )
        }
      </Loaded>
    </section>
  )
}
