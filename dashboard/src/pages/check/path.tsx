import { useQuery } from '@tanstack/react-query'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { Link } from '../../router.tsx'
import { Badge, type Tone } from '../../ui/badge.tsx'
import { Icon } from '../../ui/icons.tsx'

type Result = Shapes['IpCheckResult']
type Step = Result['steps'][number]

/** The way of an address, from top to bottom: each step with what its policies say, and the verdict at the end. */
export function Path({ result, target }: { result: Result; target: string }) {
  const end: Tone = !result.allowed ? 'refused' : result.steps.every(({ allowed }) => allowed) ? 'allowed' : 'warned'
  return (
    <section aria-label="The way to the verdict">
      <ol className="path">
        <li className="stop start">
          <span className="dot" aria-hidden="true" />
          <p>
            <strong className="mono">{result.ip}</strong> wants to reach {target}
          </p>
        </li>
        {result.steps.length === 0 && (
          <li className="stop">
            <span className="dot" aria-hidden="true" />
            <p className="soft">Nothing restricts it.</p>
          </li>
        )}
        {result.steps.map((step) => (
          <StepShown key={step.ip_restriction?.id ?? step.target?.id} step={step} />
        ))}
        <li className={`stop end ${end}`}>
          <span className="dot" aria-hidden="true">
            <Icon name={end === 'neutral' ? 'unknown' : end} />
          </span>
          <div className={`note ${end}`} role="status">
            <div>
              <p className="strong">{verdictOf(end)}</p>
              <p>{result.reason}</p>
            </div>
          </div>
        </li>
      </ol>
    </section>
  )
}

const verdictOf = (end: Tone): string =>
  end === 'refused' ? 'Refused' : end === 'warned' ? 'Let through, with a warning' : 'Let through'

function StepShown({ step }: { step: Step }) {
  const tone: Tone = step.allowed ? 'allowed' : step.enforced ? 'refused' : 'warned'
  const word = step.allowed ? 'Allows it' : step.enforced ? 'Refuses it' : 'Would refuse it, only warns'
  return (
    <li className={`stop ${tone}`}>
      <span className="dot" aria-hidden="true">
        <Icon name={tone} />
      </span>
      <div className="card">
        <header>
          <h2>
            <StepName step={step} />
          </h2>
          <Badge tone={tone}>{word}</Badge>
        </header>
        <ul className="body">
          {step.policies.map((policy) => (
            <PolicyShown key={policy.ip_policy.id} policy={policy} />
          ))}
        </ul>
      </div>
    </li>
  )
}

function StepName({ step: { ip_restriction, target, by } }: { step: Step }) {
  const restrictions = useQuery(queries.restrictions()).data
  if (by === 'module' || !ip_restriction)
    return target?.id.startsWith('edgtcp_') ? <>The edge’s own policies</> : <>The route’s own policies</>
  const name = restrictions?.find(({ id }) => id === ip_restriction.id)?.description
  return <Link to={`/restrictions/${ip_restriction.id}`}>{name ?? ip_restriction.id}</Link>
}

function PolicyShown({ policy }: { policy: Step['policies'][number] }) {
  const policies = useQuery(queries.policies()).data
  const name = policies?.find(({ id }) => id === policy.ip_policy.id)?.description ?? policy.ip_policy.id
  return (
    <li className="says-line">
      {policy.action === null ? (
        <Badge tone="neutral">No rule</Badge>
      ) : (
        <Badge tone={policy.action === 'allow' ? 'allowed' : 'refused'}>
          {policy.action === 'allow' ? 'Allow' : 'Deny'}
        </Badge>
      )}
      <span className="mono">{policy.cidr ?? 'matches'}</span>
      <span className="soft">
        in <Link to={`/policies/${policy.ip_policy.id}`}>{name}</Link>
      </span>
    </li>
  )
}
