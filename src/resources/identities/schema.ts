import { Type } from 'typebox'
import {
  BeforeId,
  Closed,
  Filter,
  Id,
  PageParameters,
  type Static,
  Text,
  Timestamp,
  TimestampOrNull,
  Uri,
  Volatile,
} from '../../http/wire.ts'

const Issuer = Type.Unsafe<string>({
  type: 'string',
  pattern: '^https?://[^\\s?#]+$',
  'x-must': 'must be the URL of an issuer',
  'x-maxBytes': 2_048,
  examples: ['https://id.example.com'],
  description: 'The issuer at the provider. Together with the subject, it identifies the person.',
})
const Subject = Type.Unsafe<string>({
  type: 'string',
  pattern: '\\S',
  'x-must': 'must not be empty',
  'x-maxBytes': 1_024,
  examples: ['248289761001'],
  description: "The provider's identifier of the person.",
})

export const IdentityCreate = Closed({ owner_id: Id('usr'), issuer: Issuer, subject: Subject })

export const Identity = Closed(
  {
    id: Id('idn'),
    uri: Uri,
    owner_id: Id('usr'),
    provider: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      'x-volatile': true,
      description: 'The name of the provider, as the operator has configured it. Null before the first sign-in.',
    }),
    issuer: Text(2_048, 'The issuer at the provider. Together with the subject, it identifies the person.'),
    subject: Text(1_024, "The provider's identifier of the person."),
    created_by_key_id: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description:
        'The API key that linked it, directly or through a dashboard session. Kept when that key is deleted. Null if a sign-in linked it, or a version that did not record it.',
    }),
    created_at: Timestamp,
    last_sign_in_at: Volatile(TimestampOrNull('Null: never signed in.')),
  },
  { title: 'Identity' },
)
export type Identity = Static<typeof Identity>
export const IdentityQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('idn'),
  owner_id: Filter(Id('usr'), 'Return only identities of this user.'),
})
