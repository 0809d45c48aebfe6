import { listWarnings } from '../../access/evidence/counts.ts'
import { route } from '../../http/route.ts'
import { invalidField, notFound } from '../../kernel/errors.ts'
import { toId } from '../../kernel/ids.ts'
import { parseAddress } from '../../kernel/ip/address.ts'
import { parseRfc3339 } from '../../kernel/time.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { restrictionGuard } from '../../operations/decision_change.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { holdIpPolicies } from '../ip_policies/store.ts'
import {
  IpRestriction,
  IpRestrictionCreate,
  IpRestrictionQuery,
  IpRestrictionUpdate,
  type Warning,
  WarningList,
  WarningQuery,
} from './schema.ts'
import {
  deleteIpRestriction,
  findIpRestriction,
  type IpRestrictionRow,
  insertIpRestriction,
  limitEndpointsRestrictions,
  listIpRestrictions,
  replacePolicies,
  updateIpRestriction,
} from './store.ts'
import { toIpRestriction } from './view.ts'

const restrictions: Resource<{ id: 'ipx' }, IpRestrictionRow, typeof IpRestriction> = {
  name: 'ip_restrictions',
  quota: 'ip_restrictions',
  path: '/ip_restrictions',
  params: { id: 'ipx' },
  shape: IpRestriction,
  view: toIpRestriction,
  find: findIpRestriction,
  records: ({ type }, { accountId }) => (type === 'endpoints' ? [`restrictions.${toId('ac', accountId)}`] : []),
  guard: restrictionGuard,
}

/** Position in a list of warnings, at which the next page starts. */
type Place = Pick<Warning, 'last_at' | 'source_ip'>
const formatPlace = ({ last_at, source_ip }: Place): string => `${last_at}~${source_ip}`

function parsePlace(text: string): Place {
  const [last_at = '', source_ip = '', ...more] = text.split('~')
  // Validated here, because PostgreSQL would fail on anything else.
  if (parseRfc3339(last_at) === undefined || !parseAddress(source_ip) || more.length)
    throw invalidField('before', 'must be taken from next_page_uri')
  return { last_at, source_ip }
}

export const ipRestrictionRoutes = [
  createRoute(restrictions, {
    access: 'admin',
    body: IpRestrictionCreate,
    errors: ['ERR_TOO_MANY'],
    async insert(tx, { caller, body: { type, enforced = false, ip_policy_ids: policyIds, ...annotations } }) {
      await holdIpPolicies(tx, caller, policyIds)
      const inserted = await insertIpRestriction(tx, caller, {
        type,
        enforced,
        policyIds,
        ...newAnnotations(annotations),
      })
      if (type === 'endpoints') await limitEndpointsRestrictions(tx, caller)
      return inserted
    },
  }),
  getRoute(restrictions, { access: 'anyone' }),
  listRoute(restrictions, {
    access: 'anyone',
    field: 'ip_restrictions',
    query: IpRestrictionQuery,
    select: listIpRestrictions,
  }),
  updateRoute(restrictions, {
    access: 'admin',
    body: IpRestrictionUpdate,
    errors: ['ERR_TOO_MANY'],
    async apply(tx, { caller, body: { ip_policy_ids: policyIds, enforced, ...annotations } }, before) {
      if (policyIds) {
        await holdIpPolicies(tx, caller, policyIds)
        await replacePolicies(tx, caller, before.id, policyIds)
        if (before.type === 'endpoints') await limitEndpointsRestrictions(tx, caller)
      }
      const fields = { ...before, enforced: enforced ?? before.enforced, ...patchedAnnotations(before, annotations) }
      return updateIpRestriction(tx, caller, fields)
    },
  }),
  deleteRoute(restrictions, {
    access: 'admin',
    remove: (tx, { caller, params }) => deleteIpRestriction(tx, caller, params.id),
  }),

  route({
    operation: 'ip_restrictions.warnings',
    summary: 'List the addresses that an unenforced IP restriction would have refused, most recent first',
    method: 'GET',
    path: '/ip_restrictions/:id/warnings',
    params: { id: 'ipx' },
    query: WarningQuery,
    success: 200,
    response: WarningList,
    // Addresses are personal data, and only admins can turn enforcement on.
    access: 'admin',
    heavy: 'report',
    async handle({ db, caller, params, query, uri }) {
      const { limit = 100 } = query
      const before = query.before === undefined ? undefined : parsePlace(query.before)
      if (!(await findIpRestriction(db, caller, params.id, false))) throw notFound('ipx')
      const fetched = await listWarnings(db, caller, params.id, limit + 1, before)
      const warnings = fetched.slice(0, limit)
      const last = fetched.length > limit ? warnings.at(-1) : undefined
      const list = uri(`/ip_restrictions/${params.id}/warnings`)
      const next = last && new URLSearchParams({ limit: String(limit), before: formatPlace(last) })
      return { body: { warnings, uri: list, next_page_uri: next ? `${list}?${next}` : null } }
    },
  }),
]
