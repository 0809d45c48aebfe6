import { toId } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations, shownAnnotations } from '../../operations/annotations.ts'
import { resource } from '../../operations/resource.ts'
import { IpPolicy, IpPolicyCreate, IpPolicyQuery, IpPolicyUpdate } from './schema.ts'
import {
  deleteIpPolicy,
  findIpPolicy,
  type IpPolicyRow,
  insertIpPolicy,
  listIpPolicies,
  updateIpPolicy,
} from './store.ts'

export function toIpPolicy(row: IpPolicyRow, uri: (path: string) => string): IpPolicy {
  const id = toId('ipp', row.id)
  return { id, uri: uri(`/ip_policies/${id}`), created_at: row.created_at, ...shownAnnotations(row) }
}

const policies = resource({
  name: 'ip_policies',
  prefix: 'ipp',
  path: '/ip_policies',
  shape: IpPolicy,
  view: toIpPolicy,
  find: findIpPolicy,
  records: ({ id }) => [`policy.${toId('ipp', id)}`],
})

export const ipPolicyRoutes = [
  policies.create({
    access: 'anyone',
    body: IpPolicyCreate,
    insert: (tx, { caller, body }) => insertIpPolicy(tx, caller, newAnnotations(body)),
  }),
  policies.get(),
  policies.list({ field: 'ip_policies', query: IpPolicyQuery, select: listIpPolicies }),
  policies.update({
    access: 'anyone',
    body: IpPolicyUpdate,
    apply: (tx, { caller, body }, before) => updateIpPolicy(tx, caller, before.id, patchedAnnotations(before, body)),
  }),
  policies.delete({
    summary: 'Delete an IP policy and its rules. Refused while the policy is attached',
    access: 'anyone',
    errors: ['ERR_IP_POLICY_IN_USE'],
    remove: (tx, { caller, params }) => deleteIpPolicy(tx, caller, params.id),
  }),
]
