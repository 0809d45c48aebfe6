import { challengeName } from '../../kernel/domains.ts'
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

/** Checks go on by themselves; who holds the domain is what counts. */
export function stableDomainFields({ verification, ...shown }: ReservedDomain): object {
  const { type, name, value, status } = verification
  return { ...shown, verification: { type, name, value, status } }
}
