import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { Badge } from '../../ui/badge.tsx'
import { Icon } from '../../ui/icons.tsx'

type Result = Shapes['IpCheckResult']
type Step = Result['steps'][number]
type End = 'allowed' | 'refused' | 'warned'

/** The evaluation of an address from top to bottom: each step with its policies, then the decision. */
export function Path({ result, target }: { result: Result; target: string }) {
  const end: End = !result.allowed ? 'refused' : result.steps.every(({ allowed }) => allowed) ? 'allowed' : 'warned'
  return (
    <section aria-label="Evaluation">
      <ol className="path">
        <li className="stop start">
          <span className="dot" aria-hidden="true" />
          <p>
            <strong className="mono">{result.ip}</strong> → {target}
          </p>
        </li>
        {result.steps.length === 0 && (
          <li className="stop">
            <span className="dot" aria-hidden="true" />
            <p className="soft">No restriction applies.</p>
          </li>
        )}
        {result.steps.map((step) => (
          <StepShown key={step.ip_restriction?.id ?? step.target?.id} step={step} />
        ))}
        <li className={`stop end ${end}`}>
          <span className="dot" aria-hidden="true">
            <Icon name={end} />
          </span>
          <div className={`note ${end}`} role="status">
            <div>
              <p className="strong">{verdictOf(end)}</p>
              <p>{sentenceOf(result)}</p>
            </div>
          </div>
        </li>
      </ol>
    </section>
  )
}

const verdictOf = (end: End): string =>
  end === 'refused' ? 'Refused' : end === 'warned' ? 'Allowed with a warning' : 'Allowed'

/** The reason without ids, which the steps above already show. */
function sentenceOf({ steps, allowed, reason }: Result): string {
  const refusing = steps.find((step) => step.enforced && !step.allowed)
  const deny = refusing?.policies.find(({ action }) => action === 'deny')
  if (deny?.cidr) return `${deny.cidr} is denied, and a deny overrides any allow.`
  if (refusing) return 'No rule of its policies allows the address.'
  if (allowed && steps.some((step) => !step.allowed))
    return 'The restriction that would refuse it is not enforced, so only a warning is recorded.'
  return allowed && steps.length > 0 ? 'Every step allows the address.' : reason
}

function StepShown({ step }: { step: Step }) {
  const tone: End = step.allowed ? 'allowed' : step.enforced ? 'refused' : 'warned'
  const word = step.allowed ? 'Allows it' : step.enforced ? 'Refuses it' : 'Would refuse it (warning only)'
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
        <Badge tone="neutral">No match</Badge>
      ) : (
        <Badge tone={policy.action === 'allow' ? 'allowed' : 'refused'}>
          {policy.action === 'allow' ? 'Allow' : 'Deny'}
        </Badge>
      )}
      {policy.cidr && <span className="mono">{policy.cidr}</span>}
      <span className="soft">
        in <Link to={`/policies/${policy.ip_policy.id}`}>{name}</Link>
      </span>
    </li>
  )
}
