import { useQuery } from '@tanstack/react-query'
import { answerOf, api } from '../../api/client.ts'
import { Link } from '../../router.tsx'
import { Icon } from '../../ui/icons.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { Ago } from '../../ui/time.tsx'
import type { Restriction } from './change.ts'

const count = new Intl.NumberFormat('en')

/** Beside the switch: whom it would refuse, from what was counted while it only warned. */
export function Evidence({ restriction: { id, type, enforced } }: { restriction: Restriction }) {
  const warnings = useQuery({
    queryKey: ['warnings', id],
    refetchInterval: 4_000,
    queryFn: () =>
      answerOf(api.GET('/ip_restrictions/{id}/warnings', { params: { path: { id }, query: { limit: 100 } } })),
  })
  return (
    <section className="evidence" aria-label="Evidence">
      <h4>{enforced ? 'Counted while it only warned' : 'Would have been refused'}</h4>
      <Loaded query={warnings} lines={3}>
        {({ warnings: rows, next_page_uri }) =>
          rows.length === 0 ? (
            <p className="soft with-icon">
              <Icon name="allowed" />
              {enforced
                ? 'Nothing was counted.'
                : 'Nobody, in the days that counts are kept. Enforcing it refuses nobody seen.'}
            </p>
          ) : (
            <>
              <p>
                <strong>
                  {rows.length}
                  {next_page_uri ? '+' : ''} {rows.length === 1 ? 'address' : 'addresses'}
                </strong>
                , {count.format(rows.reduce((sum, row) => sum + row.count, 0))} times
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
