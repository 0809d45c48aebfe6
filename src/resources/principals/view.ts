import { type Id, toId, type Uuid } from '../../kernel/ids.ts'
import type { BotUser, User } from './schema.ts'
import type { PrincipalRow, UserRow } from './store.ts'

type UriOf = (path: string) => string

export const ownerId = (kind: PrincipalRow['kind'], id: Uuid): Id<'usr' | 'bot'> =>
  toId(kind === 'user' ? 'usr' : 'bot', id)

export function toUser(row: UserRow, uri: UriOf): User {
  const id = toId('usr', row.id)
  const { name, email, role, active, created_at, has_signed_in, invitation_state, invitation_expires_at } = row
  return {
    ...{ id, uri: uri(`/users/${id}`), name, email: email ?? '', role, active, created_at },
    ...{ has_signed_in, invitation_state, invitation_expires_at },
    invitation_api_key_id: row.invitation_api_key_id && toId('ak', row.invitation_api_key_id),
  }
}

/** Fields that only a change of the user alters, for ETags and audit events. */
export const stableUserFields = ({
  has_signed_in,
  invitation_state,
  invitation_expires_at,
  invitation_api_key_id,
  ...stableFields
}: User) => stableFields

export function toBotUser({ id: uuid, name, active, created_at }: PrincipalRow, uri: UriOf): BotUser {
  const id = toId('bot', uuid)
  return { id, uri: uri(`/bot_users/${id}`), name, active, created_at }
}
