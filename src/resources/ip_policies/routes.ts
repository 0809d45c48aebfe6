import { toId } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { IpPolicy, IpPolicyCreate, IpPolicyQuery, IpPolicyUpdate } from './schema.ts'
import {
  deleteIpPolicy,
  findIpPolicy,
  type IpPolicyRow,
  insertIpPolicy,
  listIpPolicies,
  updateIpPolicy,
} from './store.ts'
import { toIpPolicy } from './view.ts'

const policies: Resource<{ id: 'ipp' }, IpPolicyRow, typeof IpPolicy> = {
  name: 'ip_policies',
  quota: 'ip_policies',
  path: '/ip_policies',
  params: { id: 'ipp' },
  shape: IpPolicy,
  view: toIpPolicy,
  find: findIpPolicy,
  records: ({ id }) => [`policy.${toId('ipp', id)}`],
}

export const ipPolicyRoutes = [
  createRoute(policies, {
    access: 'anyone',
    body: IpPolicyCreate,
    insert: (tx, { caller, body }) => insertIpPolicy(tx, caller, newAnnotations(body)),
  }),
  getRoute(policies, { access: 'anyone' }),
  listRoute(policies, { access: 'anyone', field: 'ip_policies', query: IpPolicyQuery, select: listIpPolicies }),
  updateRoute(policies, {
    access: 'anyone',
    body: IpPolicyUpdate,
    apply: (tx, { caller, body }, before) => updateIpPolicy(tx, caller, before.id, patchedAnnotations(before, body)),
  }),
  deleteRoute(policies, {
    summary: 'Delete an IP policy and its rules. Refused while the policy is attached',
    access: 'anyone',
    errors: ['ERR_IP_POLICY_IN_USE'],
    remove: (tx, { origin, params }) => deleteIpPolicy(tx, origin, params.id),
  }),
]
