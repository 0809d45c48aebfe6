import { route } from '../../http/route.ts'
import { invalidField } from '../../kernel/errors.ts'
import { checkAddress } from './check.ts'
import { IpCheck, IpCheckResult } from './schema.ts'

/** A dry run for people, and a decision point for agents: returns the decision that the API or an edge would make. */
export const ipCheckRoutes = [
  route({
    operation: 'ip_checks.create',
    summary: 'Check whether an address would be allowed, and which rule decides',
    method: 'POST',
    path: '/ip_checks',
    body: IpCheck,
    check({ type, edge_id, route_id }) {
      const atEdge = edge_id !== undefined || route_id !== undefined
      if (type === undefined && !atEdge) throw invalidField('type', 'is required')
      if (atEdge && type !== undefined && type !== 'endpoints')
        throw invalidField('type', 'must be endpoints, or be omitted, when an edge or route is given')
    },
    success: 200,
    response: IpCheckResult,
    access: 'anyone',
    openToViewers: true,
    adminsOnly: 'ask about an earlier time',
    errors: ['ERR_NOT_FOUND', 'ERR_NOT_RECORDED'],
    onlyAsks: true,
    handle: async (request) => ({ body: await checkAddress(request) }),
  }),
]
