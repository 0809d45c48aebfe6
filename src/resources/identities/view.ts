import { toId } from '../../kernel/ids.ts'
import type { Identity } from './schema.ts'
import type { IdentityRow } from './store.ts'

export function toIdentity(row: IdentityRow, uri: (path: string) => string): Identity {
  const id = toId('idn', row.id)
  const { provider, issuer, subject, created_at, last_sign_in_at } = row
  return {
    id,
    uri: uri(`/identities/${id}`),
    owner_id: toId('usr', row.owner_id),
    provider,
    issuer,
    subject,
    created_by_key_id: row.created_by_key_id && toId('ak', row.created_by_key_id),
    created_at,
    last_sign_in_at,
  }
}

/** Excludes fields that signing in alters. */
export const stableIdentityFields = ({ last_sign_in_at, provider, ...fields }: Identity) => fields
