import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { useMayChange } from '../../api/may_change.ts'
import { queries } from '../../api/queries.ts'
import { Icon } from '../../ui/icons.tsx'
import { Section } from '../../ui/section.tsx'

/** The first steps, in an account that protects nothing yet. */
export function GetStarted() {
  const policies = useQuery(queries.policies()).data
  const restrictions = useQuery(queries.restrictions()).data
  const https = useQuery(queries.httpsEdges()).data
  const tcp = useQuery(queries.tcpEdges()).data
  const mayChange = useMayChange()
  if (!mayChange || !policies || !restrictions || !https || !tcp) return null
  const edges = https.length + tcp.length
  if (restrictions.length + edges > 0) return null
  const steps = [
    {
      isDone: policies.length > 0,
      title: 'Create an IP policy',
      detail: 'A named list of the ranges that you allow or deny, such as your offices.',
      to: '/policies',
      open: 'create',
    },
    {
      isDone: restrictions.length > 0,
      title: 'Restrict the API or the dashboard',
      detail: 'It starts with warnings: you see what it would refuse before it refuses anything.',
      to: '/restrictions',
      open: 'create',
    },
    {
      isDone: edges > 0,
      title: 'Put an edge in front of a service',
      detail: 'HTTPS edges choose a route by path; TCP edges forward connections.',
      to: '/edges',
      open: 'https',
    },
  ]
  return (
    <Section title="Get started">
      <ol className="attention">
        {steps.map(({ isDone, title, detail, to, open }, index) => (
          <li key={title}>
            <span className={isDone ? 'step done' : 'step'} aria-hidden="true">
              {isDone ? <Icon name="allowed" /> : index + 1}
            </span>
            <div>
              <p className="strong">
                {title}
                {isDone && <span className="for-readers"> (done)</span>}
              </p>
              <p>{detail}</p>
            </div>
            {!isDone && (
              <Link className="button quiet" to={to} state={{ open }} aria-label={title}>
                Start
                <Icon name="right" />
              </Link>
            )}
          </li>
        ))}
      </ol>
    </Section>
  )
}
