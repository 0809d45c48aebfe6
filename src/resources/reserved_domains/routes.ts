import type { RecordKey } from '../../distribution/records.ts'
import { domainStatuses } from '../../health/shown.ts'
import type { DomainService, TxtAnswer } from '../../http/domains.ts'
import { type InstallationSettings, route } from '../../http/route.ts'
import type { Static } from '../../http/wire.ts'
import { challengeName } from '../../kernel/edge/domains.ts'
import { invalidField, Refusal } from '../../kernel/errors.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { actionRoute, createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { isSharedDomain } from '../edges/public_suffix.ts'
import { setCertificate } from './certificates.ts'
import { applyAnswer } from './checks.ts'
import {
  ReservedDomain,
  ReservedDomainCreate,
  ReservedDomainQuery,
  ReservedDomainUpdate,
  ReservedDomainVerify,
} from './schema.ts'
import {
  deleteReservedDomain,
  findReservedDomain,
  insertReservedDomain,
  listReservedDomains,
  type ReservedDomainRow,
  updateAnnotations,
} from './store.ts'
import { stableDomainFields, toReservedDomain } from './view.ts'

/** The previous certificate, kept until the change has listed its records. */
type ChangedDomain = ReservedDomainRow & { former?: Uuid | null }

const domains: Resource<{ id: 'rd' }, ChangedDomain, typeof ReservedDomain> = {
  name: 'reserved_domains',
  quota: 'reserved_domains',
  path: '/reserved_domains',
  params: { id: 'rd' },
  shape: ReservedDomain,
  view: toReservedDomain,
  statuses: domainStatuses,
  find: findReservedDomain,
  stableFields: stableDomainFields,
  records: ({ certificate_id, former }) =>
    [certificate_id, former].flatMap((uuid): RecordKey[] => (uuid ? [`certificate.${toId('cert', uuid)}`] : [])),
}

/** Names under co.uk belong to many owners. */
function check({ domain }: { domain: string }, { wildcardSuffixes }: InstallationSettings): void {
  const name = domain.toLowerCase()
  if (wildcardSuffixes.includes(name) || !isSharedDomain(name)) return
  throw invalidField('domain', `must not be a public suffix. Reserve your own domain, such as your-domain.${name}`)
}

/** Waits for DNS, so call it outside transactions. */
async function lookUp(
  { countCheck, lookUpTxt }: DomainService,
  accountId: Uuid,
  { domain, status }: ReservedDomainRow,
): Promise<TxtAnswer> {
  // Needs no record, and applyAnswer ignores it.
  if (status === 'assigned') return { values: [] }
  const { allowed, waitSeconds } = countCheck(accountId)
  if (!allowed)
    throw new Refusal(
      'ERR_RATE_LIMITED',
      `This account has verified too many domains within a minute. Nothing was changed; try again in ${waitSeconds} s.`,
      { details: { retry_after_seconds: String(waitSeconds) } },
    )
  return lookUpTxt(challengeName(domain))
}

const update = updateRoute(domains, {
  access: 'anyone',
  body: ReservedDomainUpdate,
  async apply(tx, { caller, body, domains: service }, before) {
    const row = await updateAnnotations(tx, caller, before.id, patchedAnnotations(before, body))
    return { ...(await setCertificate(tx, caller, service, row, body)), former: before.certificate_id }
  },
})

/** A DELETE equivalent to a PATCH with null. */
const detachRoute = (name: string, summary: string, field: keyof Static<typeof ReservedDomainUpdate>) =>
  route({
    operation: `reserved_domains.${name}.delete`,
    summary,
    method: 'DELETE',
    path: `/reserved_domains/:id/${name}`,
    params: { id: 'rd' },
    query: update.query,
    success: 204,
    access: update.access,
    errors: update.errors,
    async handle(request) {
      const { generation } = await update.handle({ ...request, body: { [field]: null } })
      return { body: undefined, generation }
    },
  })

export const reservedDomainRoutes = [
  createRoute(domains, {
    summary: 'Reserve a domain. Publish the TXT record in `verification`, then verify the domain',
    access: 'anyone',
    body: ReservedDomainCreate,
    check,
    errors: ['ERR_DOMAIN_RESERVED'],
    async insert(tx, { caller, body, domains: service }) {
      const row = await insertReservedDomain(tx, caller, {
        domain: body.domain.toLowerCase(),
        ...newAnnotations(body),
      })
      return setCertificate(tx, caller, service, row, body)
    },
  }),
  getRoute(domains, { access: 'anyone' }),
  listRoute(domains, {
    access: 'anyone',
    field: 'reserved_domains',
    query: ReservedDomainQuery,
    select: listReservedDomains,
  }),
  update,
  detachRoute(
    'certificate',
    'Remove the TLS certificate from a reserved domain. The certificate itself stays',
    'certificate_id',
  ),
  detachRoute(
    'certificate_management_policy',
    'Stop ordering certificates for a reserved domain',
    'certificate_management_policy',
  ),
  actionRoute(domains, {
    verb: 'verify',
    summary:
      'Verify a reserved domain. Looks up its TXT record now. The response is 200 even when the record is not there: `verification` has the outcome',
    access: 'anyone',
    body: ReservedDomainVerify,
    errors: ['ERR_DOMAIN_TAKEN'],
    prepare: ({ domains: service, caller }, row) => lookUp(service, caller.accountId, row),
    apply: (tx, { domains: { graceMs }, clock }, before, answer) =>
      applyAnswer(tx, before, answer, { now: clock(), graceMs }),
    audited: ({ verification: { checked_at, error } }) => ({ checked_at, error }),
  }),
  deleteRoute(domains, {
    summary: 'Delete a reserved domain. Refused while hostports are under it',
    access: 'anyone',
    errors: ['ERR_DOMAIN_IN_USE'],
    remove: (tx, { caller, params }) => deleteReservedDomain(tx, caller, params.id),
  }),
]
