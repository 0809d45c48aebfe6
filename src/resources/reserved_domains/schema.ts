import { type TSchema, Type } from 'typebox'
import { StatusShown } from '../../health/schema.ts'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Filter,
  Id,
  PageParameters,
  PathId,
  RefOrNull,
  type Static,
  Timestamp,
  TimestampOrNull,
  Uri,
  Volatile,
} from '../../http/wire.ts'
import type { Id as IdText } from '../../kernel/ids.ts'

type CertificateId = IdText<'cert'>
const Domain = Type.Unsafe<string>({
  type: 'string',
  'x-maxBytes': 253,
  'x-domain': true,
  examples: ['example.com'],
  description:
    'The domain, which covers every name under it as well. It cannot be changed, and cannot be a public suffix such as co.uk.',
})

export const statuses = ['pending', 'verified', 'failing', 'lapsed', 'assigned'] as const
export type DomainStatus = (typeof statuses)[number]

const Verification = Closed(
  {
    type: Type.Unsafe<'dns_txt'>({ type: 'string', enum: ['dns_txt'] }),
    name: Type.String({
      description: 'Name of the TXT record to publish.',
      examples: ['_gatehouse-challenge.example.com'],
    }),
    value: Type.String({ description: 'Value of the TXT record. It is valid for this account and domain only.' }),
    status: Type.Unsafe<DomainStatus>({
      type: 'string',
      'x-volatile': true,
      enum: [...statuses],
      description:
        'pending: not verified yet. verified: the account holds the domain. failing: it still does, but the record is gone, and the domain lapses at `lapses_at`. lapsed: no longer verified. assigned: the operator of the installation assigned the domain, without a record.',
    }),
    verified_at: Volatile(
      TimestampOrNull('When the record was last found, or when the operator assigned the domain. Null: never.'),
    ),
    checked_at: Volatile(TimestampOrNull('When DNS was last asked. Null: never.')),
    lapses_at: Volatile(
      TimestampOrNull('With status failing: when the account loses the domain unless the record is back.'),
    ),
    error: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      'x-volatile': true,
      description: 'Why the last check did not find the record. Null: it did, or there was none.',
    }),
  },
  { title: 'DomainVerification' },
)

const CertificateId = Type.Optional(
  Type.Unsafe<CertificateId | null>({
    anyOf: [Id('cert'), { type: 'null' }],
    'x-setBy': 'certificate_management_policy',
    description:
      'The TLS certificate that edge nodes serve for the domain and the names under it that are in the certificate. Null: none of the account. It cannot be set while `certificate_management_policy` is.',
  }),
)

export type ManagementPolicy = { authority: 'acme' | 'letsencrypt'; private_key_type: 'ecdsa' | 'rsa' }
const policyFields = {
  authority: Type.Unsafe<ManagementPolicy['authority']>({
    type: 'string',
    enum: ['acme', 'letsencrypt'],
    description: 'The ACME authority that the operator has configured, by either name.',
  }),
  private_key_type: Type.Unsafe<ManagementPolicy['private_key_type']>({
    type: 'string',
    enum: ['ecdsa', 'rsa'],
    description: 'ecdsa: P-256. rsa: 2048 bits.',
  }),
}
const sentWithDefault = <S extends TSchema>(field: S, byDefault: string) =>
  Type.Optional(Type.Unsafe<Static<S>>({ ...field, 'x-default': byDefault }))
const policyNote =
  'Set: Gatehouse orders a certificate for the names under the domain that HTTPS edges serve, and renews it in time. Null: it orders none.'
const ManagementSent = Type.Optional(
  Type.Unsafe<Partial<ManagementPolicy> | null>({
    anyOf: [
      Closed({
        authority: sentWithDefault(policyFields.authority, 'acme'),
        private_key_type: sentWithDefault(policyFields.private_key_type, 'ecdsa'),
      }),
      { type: 'null' },
    ],
    examples: [null],
    description: policyNote,
  }),
)
const ManagementShown = Type.Unsafe<ManagementPolicy | null>({
  anyOf: [Closed(policyFields, { title: 'CertificateManagementPolicy' }), { type: 'null' }],
  description: policyNote,
})
const Job = Closed(
  {
    error_code: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description:
        "Null: nothing has failed. Otherwise the authority's type of problem, such as dns or rateLimited, or one of ours, listed in docs/guides/certificates.md.",
    }),
    msg: Type.Unsafe<string | null>({ type: ['string', 'null'], description: 'What the last attempt failed with.' }),
    started_at: TimestampOrNull('When the order that is under way was made. Null: none is.'),
    retries_at: Type.Unsafe<string>({ ...Timestamp, description: 'When the next attempt begins.' }),
  },
  { title: 'CertificateProvisioningJob' },
)
type Job = Static<typeof Job>
const ManagementStatus = Closed(
  {
    renews_at: TimestampOrNull('When the certificate is renewed. Null: there is none yet.'),
    provisioning_job: Type.Unsafe<Job | null>({
      anyOf: [Job, { type: 'null' }],
      description: 'What is under way, what it waits for, or why it failed. Null: nothing is to be done now.',
    }),
  },
  { title: 'CertificateManagementStatus' },
)
type ManagementStatus = Static<typeof ManagementStatus>
const certificateFields = { certificate_id: CertificateId, certificate_management_policy: ManagementSent }

export const ReservedDomainCreate = Closed({ ...Annotations, domain: Domain, ...certificateFields })
export const ReservedDomainUpdate = Closed({ id: PathId('rd'), ...Annotations, ...certificateFields })
export const ReservedDomainVerify = Closed({})
export const ReservedDomain = Closed(
  {
    id: Id('rd'),
    uri: Uri,
    created_at: Timestamp,
    ...AnnotationsShown,
    domain: Type.String(),
    certificate: RefOrNull,
    certificate_management_policy: ManagementShown,
    certificate_management_status: Type.Unsafe<ManagementStatus | null>({
      anyOf: [ManagementStatus, { type: 'null' }],
      'x-volatile': true,
      description: 'Null without certificate_management_policy.',
    }),
    verification: Verification,
    status: StatusShown,
  },
  {
    title: 'ReservedDomain',
    'x-vendor': { region: '', cname_target: null, acme_challenge_cname_target: null },
  },
)
export type ReservedDomain = Static<typeof ReservedDomain>
export const ReservedDomainQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('rd'),
  domain: Filter(Domain, 'Return only the reservation of exactly this domain.'),
  certificate_id: Filter(Id('cert'), 'Return only domains that use this TLS certificate.'),
})
