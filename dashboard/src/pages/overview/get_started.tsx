import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { $api } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { Icon } from '../../ui/icons.tsx'
import { Section } from '../../ui/section.tsx'
import { isStepDone } from './started.ts'

const steps = [
  {
    isDone: isStepDone.policy,
    title: 'Create an IP policy',
    detail: 'A named list of the ranges that you allow or deny, such as your offices.',
    to: '/policies',
    open: 'create',
  },
  {
    isDone: isStepDone.restriction,
    title: 'Restrict the API or the dashboard',
    detail: 'It starts with warnings: you see what it would refuse before it refuses anything.',
    to: '/restrictions',
    open: 'create',
  },
  {
    isDone: isStepDone.edge,
    title: 'Put an edge in front of a service',
    detail: 'HTTPS edges choose a route by path; TCP edges forward connections.',
    to: '/edges',
    open: 'https',
  },
]

/** First steps, for accounts that have not completed them. */
export function GetStarted({ onHide }: { onHide: () => void }) {
  // Never cached, because a step may just have been done.
  const quotas = useQuery({ ...$api.queryOptions('get', '/caller'), staleTime: 0 }).data?.quotas
  if (!quotas) return null
  return (
    <Section
      title="Get started"
      note={`${steps.filter(({ isDone }) => isDone(quotas)).length} of ${steps.length} done`}
      action={
        <Button kind="quiet" onPress={onHide}>
          Hide
        </Button>
      }
    >
      <ol className="attention">
        {steps.map(({ isDone, title, detail, to, open }, index) => (
          <li key={title}>
            <span className={isDone(quotas) ? 'step done' : 'step'} aria-hidden="true">
              {isDone(quotas) ? <Icon name="allowed" /> : index + 1}
            </span>
            <div>
              <p className="strong">
                {title}
                {isDone(quotas) && <span className="for-readers"> (done)</span>}
              </p>
              <p>{detail}</p>
            </div>
            {!isDone(quotas) && (
              <Link className="button quiet" to={to} state={{ open }} aria-label={`Start: ${title}`}>
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
