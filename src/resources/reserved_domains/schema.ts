import { Type } from 'typebox'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Id,
  PageParameters,
  PathId,
  RefOrNull,
  type Static,
  Timestamp,
  TimestampOrNull,
  Uri,
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
      enum: [...statuses],
      description:
        'pending: not verified yet. verified: the account holds the domain. failing: it still does, but the record is gone, and the domain lapses at `lapses_at`. lapsed: no longer verified. assigned: the operator of the installation assigned the domain, without a record.',
    }),
    verified_at: TimestampOrNull(
      'When the record was last found, or when the operator assigned the domain. Null: never.',
    ),
    checked_at: TimestampOrNull('When DNS was last asked. Null: never.'),
    lapses_at: TimestampOrNull('With status failing: when the account loses the domain unless the record is back.'),
    error: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'Why the last check did not find the record. Null: it did, or there was none.',
    }),
  },
  { title: 'DomainVerification' },
)

export const ReservedDomainCreate = Closed({ ...Annotations, domain: Domain })
const CertificateId = Type.Optional(
  Type.Unsafe<CertificateId | null>({
    anyOf: [Id('cert'), { type: 'null' }],
    description:
      'The TLS certificate that edge nodes serve for the domain and the names under it that are in the certificate. Null: none of the account.',
  }),
)
export const ReservedDomainUpdate = Closed({ id: PathId('rd'), ...Annotations, certificate_id: CertificateId })
export const ReservedDomainVerify = Closed({})
export const ReservedDomain = Closed(
  {
    id: Id('rd'),
    uri: Uri,
    created_at: Timestamp,
    ...AnnotationsShown,
    domain: Type.String(),
    certificate: RefOrNull,
    verification: Verification,
  },
  { title: 'ReservedDomain' },
)
export type ReservedDomain = Static<typeof ReservedDomain>
export const ReservedDomainQuery = Closed({ ...PageParameters, before_id: BeforeId('rd') })
