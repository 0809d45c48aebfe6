import { Type } from 'typebox'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Id,
  Moment,
  PageParameters,
  PathId,
  type Static,
  Timestamp,
  TimestampOrNull,
  Uri,
} from '../../http/wire.ts'

const ExpiresAt = Moment(
  'RFC 3339. From this moment on the key is refused. Null: it does not expire. Only an admin may set it later than it was, or to null.',
)

export const ApiKeyCreate = Closed({
  ...Annotations,
  owner_id: Type.Optional(Id('usr', 'bot')),
  expires_at: ExpiresAt,
})
export type ApiKeyCreate = Static<typeof ApiKeyCreate>

export const ApiKeyUpdate = Closed({ id: PathId('ak'), ...Annotations, expires_at: ExpiresAt })
export type ApiKeyUpdate = Static<typeof ApiKeyUpdate>

export const ApiKeyRotate = Closed({
  overlap_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 30 * 24 * 60 * 60,
      examples: [3_600],
      description: 'How long the token that is replaced still works. 86400, a day, when not given; 0 ends it at once.',
    }),
  ),
})

const lastUsed = {
  last_used_at: TimestampOrNull('The hour in which it was last used; null when never.'),
  last_used_ip: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: 'An address from which it was used in that hour, the last to be new. Forgotten after a while.',
  }),
}

export const ApiKey = Closed(
  {
    id: Id('ak'),
    uri: Uri,
    ...AnnotationsShown,
    created_at: Timestamp,
    token: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'The bearer token: in the responses to creation and rotation only, null everywhere else.',
    }),
    owner_id: Id('usr', 'bot'),
    created_by_key_id: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description:
        'The API key with which it was created, directly or in a dashboard session. It stays when that key is deleted. Null for keys made by a command on the server and by versions that did not record it.',
    }),
    expires_at: TimestampOrNull('From this moment on the key is refused; null when it does not end by itself.'),
    rotated_at: TimestampOrNull('When its token was last replaced; null when never.'),
    ...lastUsed,
    previous_token: Type.Unsafe<{
      expires_at: string
      last_used_at: string | null
      last_used_ip: string | null
    } | null>({
      description: 'The token that the last rotation replaced, while it still works, and its uses since then.',
      anyOf: [Closed({ expires_at: Timestamp, ...lastUsed }), { type: 'null' }],
    }),
  },
  { title: 'ApiKey' },
)
export type ApiKey = Static<typeof ApiKey>

export const ApiKeyQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('ak'),
  descendants_of: Type.Optional(
    Type.Unsafe<`ak_${string}`>({
      ...Id('ak'),
      description: 'Only keys that this key created, and those that were created with them in turn.',
    }),
  ),
})

export const ApiKeyDeleteQuery = Closed({
  revoke_descendants: Type.Optional(
    Type.Boolean({
      description: 'Also delete every key that was created with this one, and with those in turn.',
    }),
  ),
})
