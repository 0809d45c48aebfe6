import { Type } from 'typebox'
import { StatusShown } from '../../health/schema.ts'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Id,
  PageParameters,
  PathId,
  Ref,
  type Static,
  Timestamp,
  Uri,
} from '../../http/wire.ts'
import { certificateLimits } from '../../kernel/crypto/certificate.ts'

/** `x-pem`: the command line reads the value from a file, since it has many lines and may be secret. */
const Pem = (maxBytes: number, description: string, options: object = {}) =>
  Type.Unsafe<string>({ type: 'string', minLength: 1, 'x-maxBytes': maxBytes, 'x-pem': true, description, ...options })
const certificatePem = Pem(
  certificateLimits.chainBytes,
  `PEM: the server's certificate, then each issuer after what it issued, at most ${certificateLimits.certificates} certificates. The root need not be among them.`,
)
const privateKeyPem = Pem(
  certificateLimits.keyBytes,
  'PEM of the unencrypted private key: RSA of 2048 to 4096 bits, P-256, P-384 or P-521. Encrypted at rest and never returned.',
  { writeOnly: true },
)

export const TlsCertificateCreate = Closed({
  ...Annotations,
  certificate_pem: certificatePem,
  private_key_pem: privateKeyPem,
})
export type TlsCertificateCreate = Static<typeof TlsCertificateCreate>

/** Both or neither: a chain and a key that do not match could not be served. */
export const TlsCertificateUpdate = Closed(
  {
    id: PathId('cert'),
    ...Annotations,
    certificate_pem: Type.Optional(certificatePem),
    private_key_pem: Type.Optional(privateKeyPem),
  },
  {
    'x-documented': {
      dependentRequired: { certificate_pem: ['private_key_pem'], private_key_pem: ['certificate_pem'] },
    },
  },
)
export type TlsCertificateUpdate = Static<typeof TlsCertificateUpdate>

const OrNull = (description: string) => Type.Unsafe<string | null>({ type: ['string', 'null'], description })
const Words = (description: string) => Type.Array(Type.String(), { description })

export const TlsCertificate = Closed(
  {
    id: Id('cert'),
    uri: Uri,
    created_at: Timestamp,
    ...AnnotationsShown,
    certificate_pem: Type.String({ description: 'The chain in PEM form.' }),
    source: Type.Unsafe<'uploaded' | 'acme'>({
      type: 'string',
      enum: ['uploaded', 'acme'],
      description: 'Whether it was uploaded, or ordered by the installation.',
    }),
    issued_at: Type.Unsafe<string>({ ...Timestamp, description: 'When this chain and key were stored.' }),
    not_before: Type.Unsafe<string>({ ...Timestamp, description: 'When it becomes valid.' }),
    not_after: Type.Unsafe<string>({ ...Timestamp, description: 'When it expires. Clients refuse it from then on.' }),
    expiry: Type.Unsafe<'later' | 'soon' | 'expired'>({
      type: 'string',
      'x-volatile': true,
      enum: ['later', 'soon', 'expired'],
      description:
        'soon: it expires within two weeks and has less than a third of its time left, so it should be replaced now. expired: clients refuse it.',
    }),
    subject_common_name: OrNull('Common name of the subject.'),
    subject_alternative_names: Closed(
      { dns_names: Words('Host names, which may be wildcards.'), ips: Words('IP addresses.') },
      { description: 'What clients accept it for.' },
    ),
    subject_organization: OrNull('Organization of the subject.'),
    subject_organizational_unit: OrNull('Organizational unit of the subject.'),
    subject_locality: OrNull('Locality of the subject.'),
    subject_province: OrNull('State or province of the subject.'),
    subject_country: OrNull('Country of the subject.'),
    issuer_common_name: OrNull('Common name of the issuer.'),
    serial_number: Type.String({ description: 'Serial number, hexadecimal.' }),
    key_usages: Words('What the key may be used for, such as digital-signature.'),
    extended_key_usages: Words('Purposes, such as server-auth; those without a name as object identifiers.'),
    private_key_type: Type.Unsafe<'rsa' | 'ecdsa'>({ type: 'string', enum: ['rsa', 'ecdsa'] }),
    in_use_by: Type.Array(Ref, { description: 'Domains that use it, at most 100 of them.', 'x-volatile': true }),
    status: StatusShown,
  },
  { title: 'TlsCertificate' },
)
export type TlsCertificate = Static<typeof TlsCertificate>

export const TlsCertificateQuery = Closed({ ...PageParameters, before_id: BeforeId('cert') })
