import { Type } from 'typebox'
import { Closed, Id, ShownOnce, type Static, Timestamp, TimestampOrNull, Uri, Volatile } from '../../http/wire.ts'

const daySeconds = 24 * 60 * 60

export const InvitationCreate = Closed({
  expires_in_seconds: Type.Optional(
    Type.Integer({
      minimum: 60,
      maximum: 30 * daySeconds,
      examples: [daySeconds],
      'x-default': 7 * daySeconds,
      description: 'How long the link works. Default: 604800 (7 days). At most 30 days.',
    }),
  ),
})
export const defaultExpirySeconds = 7 * daySeconds

export const invitationStates = ['waiting', 'accepted', 'expired', 'withdrawn'] as const
export type InvitationState = (typeof invitationStates)[number]

export const UserInvitation = Closed(
  {
    user_id: Id('usr'),
    uri: Uri,
    link: ShownOnce('Where the invited person opens it. Null except in the response to creation.'),
    state: Volatile(
      Type.Unsafe<InvitationState>({
        type: 'string',
        enum: [...invitationStates],
        description:
          'withdrawn: it was withdrawn, or its API key was deleted, rotated or ended, or the user is inactive, or who invited is not an active admin any more.',
      }),
    ),
    invited_by: Id('usr'),
    api_key_id: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description:
        'The API key that the person gets. Until then, its token is known to no one. Null when the key was deleted.',
    }),
    created_at: Timestamp,
    expires_at: Timestamp,
    accepted_at: TimestampOrNull('When the person accepted it. Null: not yet.'),
  },
  { title: 'UserInvitation' },
)
export type UserInvitation = Static<typeof UserInvitation>
