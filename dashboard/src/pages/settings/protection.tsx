import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { traffic } from '../../traffic.ts'
import { Loaded } from '../../ui/loading.tsx'
import { State } from '../../ui/state.tsx'
import { Line } from './line.tsx'

const guarded = ['api', 'dashboard'] as const
type Restriction = Shapes['IpRestriction']

export function Protection({ caller: { unusual_above: unusual } }: { caller: Shapes['Caller'] }) {
  const restrictions = useQuery(queries.restrictions())
  return (
    <>
      <Loaded query={restrictions} lines={2}>
        {(all) =>
          guarded.map((type) => (
            <RestrictedTo
              key={type}
              title={traffic[type].title}
              restrictions={all.filter((each) => each.type === type)}
            />
          ))
        }
      </Loaded>
      <Line title="Changes that would shut you out" end="Refused">
        A change of policies, rules or restrictions after which your own address could not use the API is refused,
        unless you say that you want it.
      </Line>
      <Line title="Unusually large changes" end="Ask to confirm">
        More than {unusual.entries} entries and {unusual.percent} % of what is there. Set by the operator.
      </Line>
    </>
  )
}

function RestrictedTo({ title, restrictions }: { title: string; restrictions: readonly Restriction[] }) {
  const enforced = restrictions.filter((each) => each.enforced)
  const warning = restrictions.length - enforced.length
  const trial = warning > 0 && `${warning} more only ${warning === 1 ? 'warns' : 'warn'}.`
  return (
    <Line
      title={title}
      end={
        enforced.length > 0 ? (
          <State health="up">Restricted</State>
        ) : (
          <Link to="/restrictions">Open to every address</Link>
        )
      }
    >
      {enforced.length > 0 ? (
        <>
          Only addresses that{' '}
          {enforced.map(({ id, description }, index) => (
            <span key={id}>
              {index > 0 && ' and '}
              <Link to={`/restrictions/${id}`}>{description ?? id}</Link>
            </span>
          ))}{' '}
          {enforced.length === 1 ? 'allows' : 'allow'}. {trial}
        </>
      ) : (
        <>Callers need a valid key or session from any address. {trial}</>
      )}
    </Line>
  )
}
