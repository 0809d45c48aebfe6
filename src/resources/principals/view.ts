import { type Id, toId, type Uuid } from '../../kernel/ids.ts'
import type { BotUser, User } from './schema.ts'
import type { PrincipalRow } from './store.ts'

type UriOf = (path: string) => string

export const ownerId = (kind: PrincipalRow['kind'], id: Uuid): Id<'usr' | 'bot'> =>
  toId(kind === 'user' ? 'usr' : 'bot', id)

export function toUser({ id: uuid, name, email, role, active, created_at }: PrincipalRow, uri: UriOf): User {
  const id = toId('usr', uuid)
  return { id, uri: uri(`/users/${id}`), name, email: email ?? '', role, active, created_at }
}

export function toBotUser({ id: uuid, name, active, created_at }: PrincipalRow, uri: UriOf): BotUser {
  const id = toId('bot', uuid)
  return { id, uri: uri(`/bot_users/${id}`), name, active, created_at }
}
