import { certificateStatuses } from '../../health/shown.ts'
import { toId } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { secretsOf } from '../../operations/secrets.ts'
import { checkBoth, checkCovers, checked } from './rules.ts'
import { TlsCertificate, TlsCertificateCreate, TlsCertificateQuery, TlsCertificateUpdate } from './schema.ts'
import {
  annotateTlsCertificate,
  createCertificate,
  deleteTlsCertificate,
  domainsUsing,
  findTlsCertificate,
  listTlsCertificates,
  replaceCertificate,
  type TlsCertificateRow,
} from './store.ts'
import { stableCertificateFields, toTlsCertificate } from './view.ts'

const certificates: Resource<{ id: 'cert' }, TlsCertificateRow, typeof TlsCertificate> = {
  name: 'tls_certificates',
  quota: 'tls_certificates',
  path: '/tls_certificates',
  params: { id: 'cert' },
  shape: TlsCertificate,
  view: toTlsCertificate,
  statuses: certificateStatuses,
  find: findTlsCertificate,
  stableFields: stableCertificateFields,
  // Nodes have only certificates that a domain uses.
  records: ({ id, used_by }) => (used_by.length ? [`certificate.${toId('cert', id)}`] : []),
}

export const tlsCertificateRoutes = [
  createRoute(certificates, {
    summary: 'Upload a TLS certificate with its chain and private key. The private key is never returned',
    access: 'anyone',
    body: TlsCertificateCreate,
    errors: ['ERR_NO_SECRETS_KEY'],
    async insert(tx, { caller, body, clock, settings }) {
      const box = secretsOf(settings, 'private keys')
      const certificate = checked(body.certificate_pem, body.private_key_pem, clock())
      return createCertificate(tx, caller, { ...certificate, ...newAnnotations(body), source: 'uploaded' }, box)
    },
  }),
  getRoute(certificates, { access: 'anyone' }),
  listRoute(certificates, {
    access: 'anyone',
    field: 'tls_certificates',
    query: TlsCertificateQuery,
    select: listTlsCertificates,
  }),
  updateRoute(certificates, {
    summary:
      'Update a TLS certificate. Omitted fields keep their values. A new certificate_pem and private_key_pem together replace the old ones without a gap',
    access: 'anyone',
    body: TlsCertificateUpdate,
    errors: ['ERR_NO_SECRETS_KEY'],
    async apply(tx, { caller, body, clock, settings }, before) {
      checkBoth(body)
      const row = await annotateTlsCertificate(tx, caller, before, patchedAnnotations(before, body))
      if (body.certificate_pem === undefined || body.private_key_pem === undefined) return row
      const certificate = checked(body.certificate_pem, body.private_key_pem, clock())
      checkCovers(certificate, await domainsUsing(tx, caller, before.id))
      return replaceCertificate(
        tx,
        caller,
        row,
        { ...certificate, source: 'uploaded' },
        secretsOf(settings, 'private keys'),
      )
    },
  }),
  deleteRoute(certificates, {
    summary: 'Delete a TLS certificate. Refused while a domain uses it',
    access: 'anyone',
    errors: ['ERR_TLS_CERTIFICATE_IN_USE'],
    remove: (tx, { caller }, before) => deleteTlsCertificate(tx, caller, before),
  }),
]
