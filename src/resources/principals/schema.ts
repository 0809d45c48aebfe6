import { Type } from 'typebox'
import {
  BeforeId,
  Closed,
  Filter,
  Id,
  PageParameters,
  PathId,
  type Static,
  Text,
  Timestamp,
  TimestampOrNull,
  Uri,
  Volatile,
} from '../../http/wire.ts'
import { roles } from '../../identity/caller.ts'
import { type InvitationState, invitationStates } from '../user_invitations/schema.ts'

const Name = Type.Unsafe<string>({
  type: 'string',
  pattern: '\\S',
  'x-must': 'must not be empty',
  'x-maxBytes': 255,
  examples: ['Ada'],
})
const Email = Type.Unsafe<string>({
  type: 'string',
  // Loose on purpose: only a mail server knows which addresses it accepts.
  pattern: '^[^\\s@]+@[^\\s@]+$',
  'x-must': 'must be an email address',
  'x-maxBytes': 255,
  examples: ['ada@example.net'],
})
const Role = Type.Unsafe<(typeof roles)[number]>({
  type: 'string',
  enum: [...roles],
  description: 'What the user may do. Viewers read what members read, and change nothing.',
  'x-default': 'member',
})

export const UserCreate = Closed({ name: Name, email: Email, role: Type.Optional(Role) })
export const UserUpdate = Closed({
  id: PathId('usr'),
  name: Type.Optional(Name),
  email: Type.Optional(Email),
  role: Type.Optional(Role),
  active: Type.Optional(Type.Boolean({ description: 'Setting it to false blocks the user immediately.' })),
})
export const User = Closed(
  {
    id: Id('usr'),
    uri: Uri,
    name: Text(255, 'Display name.'),
    email: Text(255, 'Unique in the account, ignoring case.'),
    role: Type.Unsafe<(typeof roles)[number]>({ type: 'string', enum: [...roles] }),
    active: Type.Boolean(),
    created_at: Timestamp,
    has_signed_in: Volatile(
      Type.Boolean({
        description:
          'Whether the user has signed in or used an API key, as far as their API keys, identities and the audit log tell.',
      }),
    ),
    invitation_state: Type.Unsafe<InvitationState | null>({
      type: ['string', 'null'],
      enum: [...invitationStates, null],
      'x-volatile': true,
      description:
        "The state of the user's newest invitation, as GET /users/{id}/invitation says. Null: never invited.",
    }),
    invitation_expires_at: Volatile(TimestampOrNull('Until when its link works if it waits. Null: never invited.')),
    invitation_api_key_id: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      'x-volatile': true,
      description:
        'The API key that it gives. Until it is accepted, no one has the token of that key. Null: never invited, or the key was deleted.',
    }),
  },
  { title: 'User' },
)
export type User = Static<typeof User>
const filters = {
  name: Filter(Text(255, ''), 'Return only those with exactly this name.'),
  active: Filter(Type.Boolean(), 'Return only those that are active, or only those that are not.'),
}
export const UserQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('usr'),
  ...filters,
  email: Filter(Text(255, ''), 'Return only the user with this email address, ignoring case.'),
  role: Filter(Role, 'Return only users with this role.'),
})

export const BotUserCreate = Closed({ name: Name, active: Type.Optional(Type.Boolean({ 'x-default': true })) })
export const BotUserUpdate = Closed({
  id: PathId('bot'),
  name: Type.Optional(Name),
  active: Type.Optional(Type.Boolean({ description: "Setting it to false blocks the bot's keys immediately." })),
})
export const BotUser = Closed(
  { id: Id('bot'), uri: Uri, name: Text(255, 'Display name.'), active: Type.Boolean(), created_at: Timestamp },
  { title: 'BotUser' },
)
export type BotUser = Static<typeof BotUser>
export const BotUserQuery = Closed({ ...PageParameters, before_id: BeforeId('bot'), ...filters })
