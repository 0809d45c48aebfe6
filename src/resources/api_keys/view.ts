import { toId } from '../../kernel/ids.ts'
import { canonicalAddress } from '../../kernel/ip/address.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import { ownerId } from '../principals/view.ts'
import type { ApiKey } from './schema.ts'
import type { ApiKeyRow } from './store.ts'

/** Excludes the token, which only create and rotate return. */
export function toApiKey(row: ApiKeyRow, uri: (path: string) => string): ApiKey {
  const id = toId('ak', row.id)
  return {
    id,
    uri: uri(`/api_keys/${id}`),
    ...shownAnnotations(row),
    created_at: row.created_at,
    token: null,
    owner_id: ownerId(row.owner_kind, row.owner_id),
    created_by_key_id: row.created_by_key_id && toId('ak', row.created_by_key_id),
    expires_at: row.expires_at,
    scopes: row.scopes,
    allowed_cidrs: row.allowed_cidrs.map(canonicalCidr),
    rotated_at: row.rotated_at,
    last_used_at: row.last_used_at,
    last_used_ip: row.last_used_ip && canonicalAddress(row.last_used_ip),
    previous_token: row.previous_expires_at && {
      expires_at: row.previous_expires_at,
      last_used_at: row.previous_last_used_at,
      last_used_ip: row.previous_last_used_ip && canonicalAddress(row.previous_last_used_ip),
    },
  } as ApiKey
}

/** Fields that only people change, for ETags and audit events; using a key does not change it. */
export const stableApiKeyFields = ({ last_used_at, last_used_ip, previous_token, ...stableFields }: ApiKey) =>
  stableFields
