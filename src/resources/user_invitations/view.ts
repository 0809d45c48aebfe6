import { toId } from '../../kernel/ids.ts'
import type { UserInvitation } from './schema.ts'
import type { InvitationRow } from './store.ts'

/** Excludes the link, which only the response to its creation contains. */
export function toInvitation(row: InvitationRow, uri: (path: string) => string): UserInvitation {
  const user_id = toId('usr', row.user_id)
  return {
    user_id,
    uri: uri(`/users/${user_id}/invitation`),
    link: null,
    state: row.state,
    invited_by: toId('usr', row.invited_by),
    api_key_id: row.api_key_id && toId('ak', row.api_key_id),
    created_at: row.created_at,
    expires_at: row.expires_at,
    accepted_at: row.accepted_at,
  }
}

/** Fields that only a change alters, for the ETag. */
export const stableInvitationFields = ({ link, state, ...stableFields }: UserInvitation) => stableFields

/** For the audit log, including the user's name. */
export function shownInvitation(
  { name }: { name: string },
  row: InvitationRow,
  uri: (path: string) => string,
): { name: string; invitation: Omit<UserInvitation, 'link'> } {
  const { link, ...invitation } = toInvitation(row, uri)
  return { name, invitation }
}
