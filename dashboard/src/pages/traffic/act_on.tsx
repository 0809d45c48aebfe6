import { AllowNow } from '../check/allow_now.tsx'
import type { Request } from './log.ts'
import type { Names } from './names.ts'

/** The target of the request, as checks and the URL of their page identify it. */
export function targetOf({ route, edge, operation }: Request): string {
  if (operation) return 'api'
  if (route) return route.id
  return edge?.id.startsWith('edgtcp_') ? edge.id : 'endpoints'
}

export function questionOf(request: Request) {
  const target = targetOf(request)
  const ip = request.source_ip ?? ''
  if (target === 'api' || target === 'endpoints') return { ip, type: target } as const
  return request.route ? { ip, route_id: target } : { ip, edge_id: target }
}

/** No allow overrides a deny, so the denying rule must change. */
export const actionWordOf = ({ ip_policy_rule }: Request): string =>
  ip_policy_rule ? 'Change rule…' : 'Allow this address…'

/** Lets a request's address in, based on the current rules, which may have changed since the refusal. */
export const ActOn = ({ request, names, onClose }: { request: Request; names: Names; onClose: () => void }) => (
  <AllowNow
    question={questionOf(request)}
    names={names}
    preferredPolicy={request.ip_policy?.id}
    from="From Traffic"
    allowedMeanwhile="The rules have changed since this request: the same address would be let in."
    onClose={onClose}
  />
)
