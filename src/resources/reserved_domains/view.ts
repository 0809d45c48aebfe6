import { challengeName } from '../../kernel/edge/domains.ts'
import { toId } from '../../kernel/ids.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import type { ReservedDomain } from './schema.ts'
import type { ReservedDomainRow } from './store.ts'

export function toReservedDomain(row: ReservedDomainRow, uri: (path: string) => string): ReservedDomain {
  const id = toId('rd', row.id)
  const certificate = row.certificate_id && toId('cert', row.certificate_id)
  return {
    id,
    uri: uri(`/reserved_domains/${id}`),
    created_at: row.created_at,
    ...shownAnnotations(row),
    domain: row.domain,
    certificate: certificate && { id: certificate, uri: uri(`/tls_certificates/${certificate}`) },
    certificate_management_policy: policyOf(row),
    certificate_management_status: row.management && {
      renews_at: row.management.renews_at,
      provisioning_job: jobOf(row.management),
    },
    verification: {
      type: 'dns_txt',
      name: challengeName(row.domain),
      value: row.challenge,
      status: row.status,
      verified_at: row.verified_at,
      checked_at: row.checked_at,
      lapses_at: row.lapses_at,
      error: row.error,
    },
  }
}

const policyOf = ({ certificate_authority: authority, private_key_type }: ReservedDomainRow) =>
  authority && private_key_type && { authority, private_key_type }

/** Null while the certificate exists and nothing has failed. */
function jobOf({ error_code, error, started_at, next_attempt_at, renews_at }: Management) {
  if (renews_at && !error_code && !started_at) return null
  return { error_code, msg: error, started_at, retries_at: next_attempt_at }
}
type Management = NonNullable<ReservedDomainRow['management']>

/** Excludes results of automatic checks and orders: only the holder and the requested settings count. */
export function stableDomainFields({ verification, certificate_management_status, ...shown }: ReservedDomain): object {
  const { type, name, value, status } = verification
  return { ...shown, verification: { type, name, value, status } }
}
