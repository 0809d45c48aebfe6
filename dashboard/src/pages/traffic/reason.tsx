import type { Request } from './log.ts'
import type { Names } from './names.ts'
import { useRule } from './names.ts'
import { failureOf } from './words.ts'

type Props = {
  request: Request
  names: Names
  /** Whether to look up the rule, which only some rows may. */
  isAsked: boolean
}

/** The deciding rule and policy in one line, the policy without a rule, or the failure. */
export function Reason({ request, names, isAsked }: Props) {
  const { ip_policy, ip_policy_rule, ip_restriction, upstream, outcome } = request
  const rule = useRule(isAsked ? ip_policy_rule?.id : undefined).data
  const failure = failureOf(request)
  if (failure) return failure
  if (ip_policy_rule && ip_policy)
    return (
      <>
        {rule ? (
          <>
            {rule.action} <span className="mono">{rule.cidr}</span>
          </>
        ) : (
          'A rule'
        )}{' '}
        in {names.policy(ip_policy.id)}
      </>
    )
  if (ip_policy) return `No rule matches in ${names.policy(ip_policy.id)}`
  if (ip_restriction) return `No rule matches in ${names.restriction(ip_restriction.id)}`
  if (outcome === 'refused' || outcome === 'warned') return 'No rule matches in the policies of the edge'
  return upstream ? (
    <>
      Forwarded to <span className="mono">{upstream}</span>
    </>
  ) : (
    'Answered by the edge'
  )
}
