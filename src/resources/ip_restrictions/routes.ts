import { listWarnings } from '../../access/evidence/counts.ts'
import { route } from '../../http/route.ts'
import { invalidField, notFound } from '../../kernel/errors.ts'
import { toId } from '../../kernel/ids.ts'
import { parseAddress } from '../../kernel/ip/address.ts'
import { parseRfc3339 } from '../../kernel/time.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { changingDecisions, LockoutQuery } from '../../operations/decision_change.ts'
import { resource } from '../../operations/resource.ts'
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
  insertIpRestriction,
  limitEndpointsRestrictions,
  listIpRestrictions,
  replacePolicies,
  updateIpRestriction,
} from './store.ts'
import { toIpRestriction } from './view.ts'

const restrictions = resource({
  name: 'ip_restrictions',
  prefix: 'ipx',
  path: '/ip_restrictions',
  shape: IpRestriction,
  view: toIpRestriction,
  find: findIpRestriction,
  records: ({ type }, { accountId }) => (type === 'endpoints' ? [`restrictions.${toId('ac', accountId)}`] : []),
  changeQuery: LockoutQuery,
  guard: changingDecisions,
})

/** A place in a list of warnings: where a page ended. */
type Place = Pick<Warning, 'last_at' | 'source_ip'>
const formatPlace = ({ last_at, source_ip }: Place): string => `${last_at}~${source_ip}`

function parsePlace(text: string): Place {
  const [last_at = '', source_ip = '', ...more] = text.split('~')
  // Both go into a query as what they claim to be: PostgreSQL would fail on anything else.
  if (parseRfc3339(last_at) === undefined || !parseAddress(source_ip) || more.length)
    throw invalidField('before', 'must be taken from next_page_uri')
  return { last_at, source_ip }
}

export const ipRestrictionRoutes = [
  restrictions.create({
    access: 'admin',
    body: IpRestrictionCreate,
    errors: ['ERR_SELF_LOCKOUT', 'ERR_TOO_MANY'],
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
  restrictions.get(),
  restrictions.list({ field: 'ip_restrictions', query: IpRestrictionQuery, select: listIpRestrictions }),
  restrictions.update({
    access: 'admin',
    body: IpRestrictionUpdate,
    errors: ['ERR_SELF_LOCKOUT', 'ERR_TOO_MANY'],
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
  restrictions.delete({
    access: 'admin',
    errors: ['ERR_SELF_LOCKOUT'],
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
    // Addresses are personal data, and the evidence is for whoever turns enforcement on.
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
      return { warnings, uri: list, next_page_uri: next ? `${list}?${next}` : null }
    },
  }),
]
