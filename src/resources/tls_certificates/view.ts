import { toId } from '../../kernel/ids.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import type { TlsCertificate } from './schema.ts'
import type { TlsCertificateRow } from './store.ts'

/** The row omits the private key, so nothing here can show, log or audit it. */
export function toTlsCertificate(row: TlsCertificateRow, uri: (path: string) => string): TlsCertificate {
  const id = toId('cert', row.id)
  return {
    id,
    uri: uri(`/tls_certificates/${id}`),
    created_at: row.created_at,
    ...shownAnnotations(row),
    certificate_pem: row.certificate_pem,
    source: row.source,
    issued_at: row.issued_at,
    not_before: row.not_before,
    not_after: row.not_after,
    expiry: row.expiry,
    ...row.facts,
    in_use_by: row.used_by.map((uuid) => {
      const domain = toId('rd', uuid)
      return { id: domain, uri: uri(`/reserved_domains/${domain}`) }
    }),
  }
}

/** Fields that only a change alters; attaching the certificate and the passing of time do not count. */
export const stableCertificateFields = ({ in_use_by, expiry, ...stable }: TlsCertificate) => stable
