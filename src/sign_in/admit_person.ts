import { violates } from '../db/failures.ts'
import type { Db, DbPool } from '../db/pool.ts'
import { transaction } from '../db/transaction.ts'
import { type Caller, findCallerBySession } from '../identity/caller.ts'
import { ownersRights } from '../identity/grant.ts'
import type { Origin } from '../identity/origin.ts'
import { hashToken, newSessionSecret, newToken } from '../identity/token.ts'
import { Refusal } from '../kernel/errors.ts'
import { type Id, toId, type Uuid } from '../kernel/ids.ts'
import type { Address } from '../kernel/ip/address.ts'
import { excessIn, quotaConstraint } from '../kernel/quota_refusal.ts'
import type { QuotaKind, Quotas } from '../kernel/quotas.ts'
import { recordChange } from '../operations/audit.ts'
import { withinQuota } from '../operations/quota.ts'
import { insertApiKey, insertLineage, type NewApiKey } from '../resources/api_keys/store.ts'
import { stableApiKeyFields, toApiKey } from '../resources/api_keys/view.ts'
import { endOldestSessions, insertProviderSession } from '../resources/dashboard_session/store.ts'
import {
  findIdentity,
  findIdentityOf,
  hasIdentity,
  holdAncestors,
  type IdentityRow,
  insertIdentity,
  lockSubject,
  noteSignIn,
} from '../resources/identities/store.ts'
import { stableIdentityFields, toIdentity } from '../resources/identities/view.ts'
import { keepAnAdmin } from '../resources/principals/rules.ts'
import {
  findPrincipal,
  findUserByEmail,
  insertPrincipal,
  lockActiveAdmins,
  type UserRow,
  updatePrincipal,
} from '../resources/principals/store.ts'
import { stableUserFields, toUser } from '../resources/principals/view.ts'
import type { Person } from './decision.ts'
import { type Provider, SignInFailure } from './provider.ts'

export type Arrival = {
  readonly provider: Provider
  readonly issuer: string
  readonly person: Person
  /** The provider's session id and the ID token, if it sends them. */
  readonly sid: string | null
  readonly idToken: string | null
  readonly origin: Omit<Origin, 'operation' | 'caller'>
  readonly source: Address | undefined
  readonly uri: (path: string) => string
  readonly quotas: Quotas
}
export type Admitted = { readonly secret: string; readonly caller: Caller; readonly sessionId: Id<'ses'> }

/**
 * Opens a session for a person that the provider's rules admit: for the user linked to the identity, or for a new user.
 */
export const admitPerson = (db: DbPool, arrival: Arrival): Promise<Admitted> =>
  admit(db, arrival).catch((error) => {
    if (violates(error, quotaConstraint))
      throw new SignInFailure('quota_reached', excessIn(error).kind, { cause: error })
    throw error
  })

const admit = (db: DbPool, arrival: Arrival): Promise<Admitted> =>
  transaction(db, async (tx) => {
    const { origin, issuer, person, provider } = arrival
    await lockSubject(tx, origin, issuer, person.subject)
    // Before any user's row, the lock order of all changes of users.
    await lockActiveAdmins(tx, origin)
    const known = await findIdentityOf(tx, origin, issuer, person.subject)
    const identity = known ?? (await newIdentity(tx, arrival))
    const user = await findPrincipal(tx, origin, 'user', toId('usr', identity.owner_id), true)
    if (!user?.active) throw new SignInFailure('user_inactive')
    const roleKept = await updateRole(tx, arrival, user)
    const apiKeyId = await keyOf(tx, arrival, identity)
    await noteSignIn(tx, origin, identity.id, provider.name, apiKeyId)
    return openSession(tx, arrival, identity, apiKeyId, roleKept)
  })

const within = <Result>(tx: Db, { origin, quotas }: Arrival, kind: QuotaKind, add: () => Promise<Result>) =>
  withinQuota(tx, origin, { kind, added: 1, quotas }, add)

const auditing = ({ origin }: Arrival, operation: string): Origin => ({ ...origin, operation })

async function newIdentity(tx: Db, arrival: Arrival): Promise<IdentityRow> {
  const { issuer, person, origin, uri } = arrival
  const user = (await linkable(tx, arrival)) ?? (await newUser(tx, arrival))
  const linked = { owner_id: user.id, issuer, subject: person.subject, created_by_key_id: null }
  const identity = await within(tx, arrival, 'identities', () => insertIdentity(tx, origin, linked))
  if (!identity) throw new SignInFailure('user_unknown')
  const shown = stableIdentityFields(toIdentity(identity, uri))
  await recordChange(tx, auditing(arrival, 'sign_in.link'), { resourceId: shown.id, before: null, after: shown })
  return identity
}

/**
 * Finds an existing user with the person's address, if the operator allows this provider to link by email. The address
 * must be verified and in an allowed domain; otherwise anyone who can choose their address at the provider could choose
 * an admin's. The user must have no identity, so that two people cannot share one user.
 */
async function linkable(tx: Db, { provider, person, origin }: Arrival): Promise<UserRow | undefined> {
  if (!provider.linkByEmail || !person.ownsAllowedEmail || person.email === undefined) return undefined
  const user = await findUserByEmail(tx, origin, person.email)
  return user && !(await hasIdentity(tx, origin, user.id)) ? user : undefined
}

async function newUser(tx: Db, arrival: Arrival): Promise<UserRow> {
  const { provider, person, origin, uri } = arrival
  if (!provider.createUsers || !person.newRole) throw new SignInFailure('user_unknown')
  if (person.email === undefined) throw new SignInFailure('email_missing')
  const { name, email, newRole: role } = person
  const created = { kind: 'user', name, email, role, active: true } as const
  const inserting = within(tx, arrival, 'users', () => insertPrincipal(tx, origin, created))
  const user = await inserting.catch((error) => {
    if (error instanceof Refusal && error.code === 'ERR_EMAIL_TAKEN')
      throw new SignInFailure('email_taken', undefined, { cause: error })
    throw error
  })
  const shown = stableUserFields(toUser(user, uri))
  await recordChange(tx, auditing(arrival, 'sign_in.create_user'), { resourceId: shown.id, before: null, after: shown })
  return user
}

/**
 * Applies the role from the provider's claims, except that the last active admin keeps theirs. Resolves to whether that
 * exception applied.
 */
async function updateRole(tx: Db, arrival: Arrival, user: UserRow): Promise<boolean> {
  const { person, origin, uri } = arrival
  if (person.role === undefined || person.role === user.role) return false
  const wanted = { ...user, role: person.role }
  try {
    await keepAnAdmin(tx, origin, user, wanted)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'ERR_LAST_ADMIN') return true
    throw error
  }
  const shown = (row: UserRow) => stableUserFields(toUser(row, uri))
  const [before, after] = [shown(user), shown(await updatePrincipal(tx, origin, wanted))]
  await recordChange(tx, auditing(arrival, 'sign_in.update_role'), { resourceId: after.id, before, after })
  return false
}

/**
 * The key that owns the identity's sessions, so that lineage, limits and revocation apply to them as to other sessions.
 * Its token is never revealed.
 */
async function keyOf(tx: Db, arrival: Arrival, identity: IdentityRow): Promise<Uuid> {
  if (identity.api_key_id) return identity.api_key_id
  const { provider, origin, uri } = arrival
  const { created_by_key_id } = identity
  const ancestors = created_by_key_id ? await holdAncestors(tx, origin, identity.id) : []
  // A concurrent revocation may have deleted the identity while we waited for the lock.
  if (created_by_key_id && !(await findIdentity(tx, origin, toId('idn', identity.id), true)))
    throw new SignInFailure('user_unknown')
  const wanted: NewApiKey = {
    ownerId: toId('usr', identity.owner_id),
    tokenHash: hashToken(newToken()),
    description: `Sign-in with ${provider.name}`,
    metadata: null,
    expires_at: null,
    grant: ownersRights,
    createdBy: created_by_key_id && toId('ak', created_by_key_id),
    issuers: identity.issuers,
    signIn: 'provider',
  }
  const key = await within(tx, arrival, 'api_keys', () => insertApiKey(tx, origin, wanted))
  if (!key) throw new SignInFailure('user_inactive')
  await insertLineage(tx, origin, key.id, ancestors)
  const shown = stableApiKeyFields(toApiKey(key, uri))
  await recordChange(tx, auditing(arrival, 'sign_in.create_key'), {
    resourceId: toId('ak', key.id),
    before: null,
    after: shown,
  })
  return key.id
}

async function openSession(
  tx: Db,
  arrival: Arrival,
  identity: IdentityRow,
  apiKeyId: Uuid,
  roleKept: boolean,
): Promise<Admitted> {
  const { provider, origin, person, issuer, source, sid, idToken } = arrival
  const secret = newSessionSecret()
  const key = { accountId: origin.accountId, apiKeyId: toId('ak', apiKeyId) }
  const session = await insertProviderSession(tx, key, hashToken(secret), {
    identityId: identity.id,
    provider: provider.name,
    sid,
    idToken,
  })
  await endOldestSessions(tx, key)
  // The same look-up as in later requests: a key that an admin has limited opens no session.
  const { caller } = await findCallerBySession(tx, secret, source)
  if (!session || !caller) throw new SignInFailure('key_limited')
  const sessionId = toId('ses', session.id)
  await recordChange(
    tx,
    { ...auditing(arrival, 'sign_in.succeeded'), caller },
    {
      resourceId: sessionId,
      before: null,
      after: {
        method: 'oidc',
        provider: provider.name,
        issuer,
        subject: person.subject,
        role: caller.role,
        // The provider's role was not applied, because the account would have no admin.
        ...(roleKept && { role_kept: 'last_admin', role_claimed: person.role }),
      },
    },
  )
  return { secret, caller, sessionId }
}
