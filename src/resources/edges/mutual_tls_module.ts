import { Type } from 'typebox'
import { Closed, Timestamp } from '../../http/wire.ts'
import { authoritiesFault, readAuthority } from '../../kernel/crypto/authorities.ts'
import { exampleAuthority } from '../../kernel/crypto/example_authority.ts'
import {
  authorityLimits,
  defaultMutualTlsMode,
  type MutualTlsMode,
  mutualTlsModes,
} from '../../kernel/edge/mutual_tls.ts'
import { invalidField } from '../../kernel/errors.ts'
import { define } from './module.ts'

export type MutualTls = { certificate_authorities: string[]; mode: MutualTlsMode }

const Authorities = Type.Array(
  Type.Unsafe<string>({
    type: 'string',
    minLength: 1,
    'x-maxBytes': authorityLimits.pemBytes,
    'x-pem': true,
  }),
  {
    minItems: 1,
    maxItems: authorityLimits.authorities,
    examples: [[exampleAuthority]],
    description: `The authorities that issue certificates to clients: one certificate in PEM form each, with its issuers up to the one that issued itself. At most ${authorityLimits.authorities}, and ${authorityLimits.allBytes} bytes together.`,
  },
)
const Mode = Type.Unsafe<MutualTlsMode>({
  type: 'string',
  enum: [...mutualTlsModes],
  'x-default': defaultMutualTlsMode,
  description:
    'With `required`, clients without a certificate are refused. With `optional` they pass, and the upstream learns that they have none. A certificate that does not verify is refused in either mode.',
})
const Authority = Closed(
  {
    subject: Type.String({ description: 'Its name.' }),
    sha256_fingerprint: Type.String({
      pattern: '^[0-9a-f]{64}$',
      description: 'The fingerprint of the certificate, in hexadecimal.',
    }),
    not_before: Timestamp,
    not_after: Type.Unsafe<string>({
      ...Timestamp,
      description: 'When it expires. From then on, certificates that it has issued are refused.',
    }),
  },
  { title: 'ClientAuthority' },
)

/** Stores the text as sent, so that a GET returns it unchanged. Nodes get only the certificates in it. */
export const mutualTlsModule = define({
  title: 'MutualTlsModule',
  on: ['https'],
  body: { certificate_authorities: Authorities, mode: Type.Optional(Mode) },
  shape: {
    certificate_authorities: Authorities,
    mode: Mode,
    authorities: Type.Array(Authority, { description: 'What the certificates say, in the same order.' }),
  },
  check({ certificate_authorities }, prefix) {
    const found = authoritiesFault(certificate_authorities, Date.now())
    if (found) throw invalidField(prefix + found.place, found.fault)
  },
  toStored: ({ certificate_authorities, mode = defaultMutualTlsMode }) => ({
    settings: { certificate_authorities, mode } satisfies MutualTls,
  }),
  show({ settings }) {
    const { certificate_authorities, mode } = settings as MutualTls
    return { certificate_authorities, mode, authorities: certificate_authorities.map(toAuthority) }
  },
})

function toAuthority(pem: string) {
  const certificate = readAuthority(pem)
  return {
    subject: (certificate.subject ?? '').split('\n').join(','),
    sha256_fingerprint: certificate.fingerprint256.replaceAll(':', '').toLowerCase(),
    not_before: certificate.validFromDate.toISOString(),
    not_after: certificate.validToDate.toISOString(),
  }
}
