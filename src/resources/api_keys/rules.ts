import type { Db } from '../../db/pool.ts'
import type { Handling, InstallationSettings } from '../../http/route.ts'
import { type Caller, tokenReplaced } from '../../identity/caller.ts'
import { excessOf, type Grant } from '../../identity/grant.ts'
import { forbidden, invalidField, Refusal } from '../../kernel/errors.ts'
import { type Id, newUuid, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { matches } from '../../kernel/scopes.ts'
import { canonicalExpiry } from '../../kernel/time.ts'
import { creationEvent, recordDeletions } from '../../operations/audit.ts'
import { deleteIdentitiesBelow } from '../identities/store.ts'
import { stableIdentityFields, toIdentity } from '../identities/view.ts'
import { ownerId } from '../principals/view.ts'
import { closestScope } from './closest_scope.ts'
import type { ApiKeyCreate, ApiKeyUpdate } from './schema.ts'
import {
  type ApiKeyRow,
  createApiKeyBelow,
  deleteDescendants,
  holdLineage,
  insertApiKey,
  insertApiKeyBelow,
  insertLineage,
  maxAncestors,
  maxDescendants,
  type NewApiKey,
} from './store.ts'
import { stableApiKeyFields, toApiKey } from './view.ts'

const isOwn = (caller: Caller, key: ApiKeyRow) => ownerId(key.owner_kind, key.owner_id) === caller.ownerId

/** The last address of a key reveals where its owner is. Only admins see it for keys of others. */
export const visibleTo = <Row extends ApiKeyRow>(caller: Caller, key: Row): Row =>
  caller.role === 'admin' || isOwn(caller, key) ? key : { ...key, last_used_ip: null, previous_last_used_ip: null }

/** Owners change their own keys, admins any. Requires the key's row to be locked. */
export function mayChange(_tx: Db, caller: Caller, key: ApiKeyRow): void {
  if (caller.role !== 'admin' && !isOwn(caller, key)) throw forbidden("Only admins can change another owner's API key.")
  // Two concurrent rotations with one token: the second would replace the token that the first has just returned.
  if (toId('ak', key.id) === caller.apiKeyId && key.rotated_at !== caller.apiKeyRotatedAt) throw tokenReplaced(caller)
}

const isLater = (moment: string | null, than: string | null): boolean =>
  than !== null && (moment === null || Date.parse(moment) > Date.parse(than))

/** Only admins extend a key: a leaked key must not extend itself. */
export function mayUpdate(tx: Db, caller: Caller, key: ApiKeyRow, { expires_at, ...limits }: ApiKeyUpdate): void {
  mayChange(tx, caller, key)
  const isExtended = expires_at !== undefined && isLater(canonicalExpiry(expires_at), key.expires_at)
  if (isExtended && caller.role !== 'admin') throw forbidden('Only admins can extend or clear expires_at.')
  // Checks the complete grant: a key with wider scopes or a later expiry must also be limited to the caller's ranges.
  if (isExtended || limits.scopes || limits.allowed_cidrs)
    refuseMore('api_keys.update', grantWith(limits, grantOf(key)), caller)
}

/** For new keys: a member's expiring key passes its expiry on to the keys that it creates. */
export function expiryOfNew(caller: Caller, wanted: string | null): string | null {
  if (caller.role === 'admin' || caller.apiKeyExpiresAt === null) return wanted
  if (wanted === null) return caller.apiKeyExpiresAt
  if (isLater(wanted, caller.apiKeyExpiresAt))
    throw forbidden(
      `This API key expires at ${caller.apiKeyExpiresAt}, and a key created with it cannot outlive it. Set an earlier expires_at, or ask an admin to extend the new key.`,
    )
  return wanted
}

/** The ancestors of a key that the caller creates, and the current grant of the caller's key. */
export async function lineageOfNew(tx: Db, caller: Caller): Promise<{ lineage: Uuid[]; parent: Grant }> {
  const held = await holdLineage(tx, caller, caller.apiKeyId)
  const lineage = held.map(({ id }) => id)
  const parent = held.find(({ id }) => id === toUuid(caller.apiKeyId))
  if (!parent)
    throw new Refusal(
      'ERR_UNAUTHENTICATED',
      "Send 'Authorization: Bearer <token>' with the token of an active API key.",
    )
  if (lineage.length > maxAncestors)
    throw new Refusal(
      'ERR_TOO_MANY',
      `This key ends a chain of ${maxAncestors} keys, each created with the one before it, and the chain cannot grow. Delete keys you no longer need, or create the key with a different one.`,
    )
  return { lineage, parent: grantOf(parent) }
}

/** Creates a key below the caller's key, with at most its rights. */
export async function createBelow(
  tx: Db,
  caller: Caller,
  limits: Limits,
  key: Omit<NewApiKey, 'grant' | 'createdBy'>,
): Promise<ApiKeyRow> {
  const wanted = (parent: Grant): NewApiKey => ({
    ...key,
    grant: grantWith(limits, parent),
    createdBy: caller.apiKeyId,
  })
  // The caller's key rarely changes during the request, so try the single statement first.
  if (!excessOf(wanted(caller).grant, caller)) {
    const row = await insertApiKeyBelow(tx, caller, wanted(caller))
    if (row) return row
  }
  const { lineage, parent } = await lineageOfNew(tx, caller)
  refuseMore('api_keys.create', wanted(parent).grant, parent)
  const row = await insertApiKey(tx, caller, wanted(parent))
  if (!row) throw invalidField('owner_id', 'must be an active user or bot of this account')
  await insertLineage(tx, caller, row.id, lineage)
  return row
}

/**
 * Creates the key and its audit event in one statement, provided that the caller's key has not changed since
 * authentication. Resolves to undefined if it has, or if anything else prevents it.
 */
export async function createBelowAtOnce(
  {
    db,
    caller,
    origin,
    uri,
    settings,
  }: Pick<Handling<object, object, object>, 'db' | 'caller' | 'origin' | 'uri' | 'settings'>,
  limits: Limits,
  key: Omit<NewApiKey, 'grant' | 'createdBy'>,
): Promise<ApiKeyRow | undefined> {
  const grant = grantWith(limits, caller)
  if (excessOf(grant, caller)) return undefined
  const wanted = { ...key, grant, createdBy: caller.apiKeyId, id: newUuid() }
  const { created_at, ...after } = stableApiKeyFields(toApiKey(expectedRow(wanted), uri))
  return createApiKeyBelow(db, caller, wanted, settings.quotas, (created) =>
    creationEvent(origin, created, toId('ak', wanted.id), after),
  )
}

/** The row as it will be stored, except `created_at`. */
const expectedRow = ({ id, ownerId: owner, grant, createdBy, ...key }: NewApiKey & { id: Uuid }): ApiKeyRow => ({
  id,
  owner_id: toUuid(owner),
  owner_kind: owner.startsWith('usr_') ? 'user' : 'bot',
  created_by_key_id: createdBy && toUuid(createdBy),
  description: key.description,
  metadata: key.metadata,
  created_at: '',
  expires_at: key.expires_at,
  scopes: grant.scopes,
  allowed_cidrs: grant.allowedCidrs,
  rotated_at: null,
  last_used_at: null,
  last_used_ip: null,
  previous_expires_at: null,
  previous_last_used_at: null,
  previous_last_used_ip: null,
})

type Limits = Pick<ApiKeyCreate, 'scopes' | 'allowed_cidrs'>
export const grantOf = ({ scopes, allowed_cidrs }: Pick<ApiKeyRow, 'scopes' | 'allowed_cidrs'>): Grant => ({
  scopes,
  allowedCidrs: allowed_cidrs,
})

/** The resulting grant: fields of the request, completed from the key itself or its parent. */
export const grantWith = ({ scopes, allowed_cidrs }: Limits, rest: Grant): Grant => ({
  scopes: scopes ?? rest.scopes,
  allowedCidrs: allowed_cidrs ? [...new Set(allowed_cidrs.map(canonicalCidr))] : rest.allowedCidrs,
})

/** A key cannot grant more than it has, neither by creating nor by changing nor by rotating another. */
export function refuseMore(operation: string, wanted: Grant, own: Grant): void {
  const excess = excessOf(wanted, own)
  if (!excess) return
  const { field, index, missing } = excess
  throw new Refusal(
    'ERR_SCOPE',
    `A key cannot give another key more than it has, and this one does not have ${missing} in its ${field}. Leave it out, or use a key that has it.`,
    { details: { operation, missing, field: index === undefined ? field : `${field}[${index}]` } },
  )
}

/** A rotation returns the key's token, so the caller gains all rights of that key. */
export function mayRotate(tx: Db, caller: Caller, key: ApiKeyRow): void {
  mayChange(tx, caller, key)
  refuseMore('api_keys.rotate', grantOf(key), caller)
}

/** Rejects scopes that match no operation: typos, or scopes of another version. */
export function checkScopes({ scopes = [] }: Limits, { operations }: InstallationSettings): void {
  for (const [index, scope] of scopes.entries()) {
    if (operations.some((operation) => matches(scope, operation))) continue
    const suggestion = closestScope(scope, operations)
    throw invalidField(`scopes[${index}]`, `matches no operation${suggestion ? `; did you mean ${suggestion}` : ''}`)
  }
}

/** Deletes all keys and linked identities below a locked key, with an audit event for each. */
export async function revokeDescendants(
  tx: Db,
  request: Pick<Handling<object, object, void>, 'caller' | 'origin' | 'uri'>,
  id: Id<'ak'>,
): Promise<void> {
  const { caller, uri } = request
  const revoked = await deleteDescendants(tx, caller, id)
  if (revoked.length > maxDescendants)
    throw new Refusal(
      'ERR_TOO_MANY',
      `More than ${maxDescendants} keys descend from this key, so nothing was deleted. Delete some of them first, or deactivate their owner to block them all at once.`,
    )
  if (caller.role !== 'admin' && !revoked.every((key) => isOwn(caller, key)))
    throw forbidden(
      "Some keys created with this key have another owner. Only admins can delete another owner's API key.",
    )
  const unlinked = await deleteIdentitiesBelow(tx, caller, id)
  if (caller.role !== 'admin' && unlinked.length > 0)
    throw forbidden('Identities were linked with this key or a key created with it. Only admins can delete identities.')
  await recordDeletions(tx, request.origin, [
    ...revoked.map((row) => ({ ...stableApiKeyFields(toApiKey(row, uri)), id: toId('ak', row.id) })),
    ...unlinked.map((row) => ({ ...stableIdentityFields(toIdentity(row, uri)), id: toId('idn', row.id) })),
  ])
}
