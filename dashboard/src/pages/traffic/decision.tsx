import type { ReactNode } from 'react'
import { Link } from 'react-router'
import { Badge } from '../../ui/badge.tsx'
import { Icon, type IconName } from '../../ui/icons.tsx'
import type { Request } from './log.ts'
import { type Names, useRule } from './names.ts'
import { clockOf, failureOf, protocolOf, verdicts } from './words.ts'

type Props = { request: Request; names: Names }

/** From top to bottom: where the request arrived, which rule decided, and the result at that time. */
export function Decision({ request, names }: Props) {
  const { node, operation, ip_policy, ip_restriction, outcome, host } = request
  const isDecided = ip_policy !== null || ip_restriction !== null || outcome === 'refused' || outcome === 'warned'
  return (
    <section aria-label="Decision">
      <h3>Decision</h3>
      <ol className="path decision">
        <Stop tone="plain" icon="arrow">
          <p className="between">
            <span>
              Arrived at <b className="strong">{node ?? 'the API'}</b>
            </span>
            <span className="fine mono">{clockOf(request)}</span>
          </p>
          <p className="fine">
            {operation ? <span className="mono">{operation}</span> : protocolOf(request)}
            {host && ` for ${host}`}
          </p>
        </Stop>
        {isDecided && <Decider request={request} names={names} />}
        <End request={request} />
      </ol>
    </section>
  )
}

type Tone = 'plain' | 'allowed' | 'refused' | 'warned'
const Stop = ({ tone, icon, children }: { tone: Tone; icon: IconName; children: ReactNode }) => (
  <li className={`stop ${tone}`}>
    <span className="dot" aria-hidden="true">
      <Icon name={icon} />
    </span>
    <div>{children}</div>
  </li>
)

/** The restriction, or the policies of the edge or route, with the deciding policy and rule. */
function Decider({ request, names }: Props) {
  const { ip_restriction, ip_policy, outcome, edge, route } = request
  const tone = outcome === 'refused' ? 'refused' : outcome === 'warned' ? 'warned' : 'allowed'
  return (
    <Stop tone={tone} icon={tone}>
      <p className="between">
        {ip_restriction ? (
          <span>
            Restriction <Link to={`/restrictions/${ip_restriction.id}`}>{names.restriction(ip_restriction.id)}</Link>
          </span>
        ) : (
          <Place edge={edge} route={route} names={names} />
        )}
        <span className="fine">
          {ip_restriction ? '' : 'own policies, '}
          {outcome === 'warned' ? 'warns only' : 'enforced'}
        </span>
      </p>
      <div className="said">
        {ip_policy ? (
          <p>
            <Link className="row-link" to={`/policies/${ip_policy.id}`}>
              {names.policy(ip_policy.id)}
            </Link>
          </p>
        ) : (
          <p className="strong">Its policies</p>
        )}
        <RuleSaid request={request} />
      </div>
    </Stop>
  )
}

function Place({ edge, route, names }: Pick<Request, 'edge' | 'route'> & { names: Names }) {
  if (!edge) return <span>Unknown edge</span>
  const link = <Link to={`/edges/${edge.id}`}>{names.edge(edge.id)}</Link>
  const path = route && names.route(route.id)
  if (!route) return <span>Edge {link}</span>
  return (
    <span>
      Route {path && <span className="mono">{path}</span>} of {link}
    </span>
  )
}

/** Without a rule, none matched. A rule changed since is still found by its id. */
function RuleSaid({ request: { ip_policy_rule: decided } }: { request: Request }) {
  const rule = useRule(decided?.id)
  if (!decided) return <p className="soft">No rule matches.</p>
  if (rule.data)
    return (
      <p className="soft">
        Rule{' '}
        <Badge tone={rule.data.action === 'allow' ? 'allowed' : 'refused'}>
          {rule.data.action === 'allow' ? 'Allow' : 'Deny'}
        </Badge>{' '}
        <span className="mono">{rule.data.cidr}</span> matches. {rule.data.description}
      </p>
    )
  return (
    <p className="soft">
      {rule.isError ? 'A rule that has been removed or changed since' : 'Rule'}{' '}
      <span className="mono breaks">{decided.id}</span>
    </p>
  )
}

function End({ request }: { request: Request }) {
  const { outcome, status_code } = request
  const { word, icon } = verdicts[outcome]
  const tone = outcome === 'warned' ? 'warned' : outcome === 'allowed' ? 'allowed' : 'refused'
  return (
    <li className={`stop end ${tone}`}>
      <span className="dot" aria-hidden="true">
        <Icon name={icon} />
      </span>
      <div className={`note ${tone}`}>
        <div>
          <p className="strong">
            {word}
            {status_code !== null && ` with ${status_code}`}
          </p>
          <p>{sentenceOf(request)}</p>
        </div>
      </div>
    </li>
  )
}

function sentenceOf(request: Request): string {
  const { outcome, ip_policy_rule, upstream } = request
  const failure = failureOf(request)
  if (failure) return `${failure}.`
  if (outcome === 'refused')
    return ip_policy_rule
      ? 'A deny overrides any allow. No backend was contacted.'
      : 'No attached policy allows this address. No backend was contacted.'
  if (outcome === 'warned') return 'It was forwarded: the restriction that would refuse it is not enforced.'
  return upstream ? `Forwarded to ${upstream}.` : 'Answered by the edge itself.'
}
