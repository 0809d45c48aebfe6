import { Type } from 'typebox'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Filter,
  Id,
  Moment,
  OperationPattern,
  PageParameters,
  PathId,
  ShownOnce,
  type Static,
  Timestamp,
  TimestampOrNull,
  Uri,
  Volatile,
} from '../../http/wire.ts'

const ExpiresAt = Moment('When the key expires (RFC 3339). Null: never. Only admins can extend or clear it.')

/** `note`: the effect of omitting each. */
const limits = (note: { scopes: string; allowed_cidrs: string }) => ({
  scopes: Type.Optional(
    Type.Array(OperationPattern, {
      minItems: 1,
      maxItems: 100,
      uniqueItems: true,
      examples: [['*.get', '*.list']],
      description: `Operations that the key may call, within its owner's role: operation ids, or patterns with * for the first or last part. ["*"]: all.${note.scopes}`,
    }),
  ),
  allowed_cidrs: Type.Optional(
    Type.Array(Type.Unsafe<string>({ type: 'string', 'x-cidr': true, 'x-maxBytes': 100 }), {
      maxItems: 100,
      examples: [['203.0.113.0/24']],
      description: `Source addresses and CIDR ranges from which the key may be used. Empty: from any.${note.allowed_cidrs}`,
    }),
  ),
})

export const ApiKeyCreate = Closed({
  ...Annotations,
  owner_id: Type.Optional(Id('usr', 'bot')),
  expires_at: ExpiresAt,
  ...limits({
    scopes: ' Default: those of the key in use, usually ["*"].',
    allowed_cidrs: ' Default: those of the key in use, usually none.',
  }),
})
export type ApiKeyCreate = Static<typeof ApiKeyCreate>

export const ApiKeyUpdate = Closed({
  id: PathId('ak'),
  ...Annotations,
  expires_at: ExpiresAt,
  ...limits({ scopes: '', allowed_cidrs: '' }),
})
export type ApiKeyUpdate = Static<typeof ApiKeyUpdate>

export const ApiKeyRotate = Closed({
  overlap_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 30 * 24 * 60 * 60,
      examples: [3_600],
      description: 'How long the replaced token keeps working. Default: 86400 (one day). 0 revokes it immediately.',
    }),
  ),
})

const lastUsed = {
  last_used_at: Volatile(TimestampOrNull('The hour of the last use. Null: never used.')),
  last_used_ip: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    'x-volatile': true,
    description:
      'The newest address seen in that hour. Cleared after the retention period. Shown to admins and to the owner of the key.',
  }),
}

export const ApiKey = Closed(
  {
    id: Id('ak'),
    uri: Uri,
    ...AnnotationsShown,
    created_at: Timestamp,
    token: ShownOnce('The bearer token. Null except in the responses to creation and rotation.'),
    owner_id: Id('usr', 'bot'),
    created_by_key_id: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description:
        'The API key that created this one, directly or through a dashboard session. Kept when that key is deleted. Null for keys created by a command on the server, or by versions that did not record it.',
    }),
    expires_at: TimestampOrNull('When the key expires. Null: never.'),
    scopes: Type.Array(Type.String(), {
      description: 'Operations that the key may call, as ids and patterns. ["*"]: all.',
    }),
    allowed_cidrs: Type.Array(Type.String(), {
      description: 'Source ranges from which the key may be used. Empty: from any address.',
    }),
    rotated_at: TimestampOrNull('When the token was last rotated. Null: never.'),
    ...lastUsed,
    previous_token: Type.Unsafe<{
      expires_at: string
      last_used_at: string | null
      last_used_ip: string | null
    } | null>({
      'x-volatile': true,
      description: 'The token replaced by the last rotation, while it still works, and its use since then.',
      anyOf: [Closed({ expires_at: Timestamp, ...lastUsed }), { type: 'null' }],
    }),
  },
  { title: 'ApiKey' },
)
export type ApiKey = Static<typeof ApiKey>

export const ApiKeyQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('ak'),
  owner_id: Filter(Id('usr', 'bot'), 'Return only keys of this user or bot.'),
  descendants_of: Type.Optional(
    Type.Unsafe<`ak_${string}`>({
      ...Id('ak'),
      description: 'Return only keys created with this key, directly or indirectly.',
    }),
  ),
})

export const ApiKeyDeleteQuery = Closed({
  revoke_descendants: Type.Optional(
    Type.Boolean({
      description: 'Also delete every key created with this one, directly or indirectly.',
    }),
  ),
})
