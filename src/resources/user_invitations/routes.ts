import type { Db } from '../../db/pool.ts'
import { transaction } from '../../db/transaction.ts'
import { checkIfMatch, etagOf } from '../../http/preconditions.ts'
import { type Handling, route } from '../../http/route.ts'
import { hashToken, newInvitationSecret, newToken } from '../../identity/token.ts'
import { forbidden, notFound, Refusal } from '../../kernel/errors.ts'
import { type Id, toId } from '../../kernel/ids.ts'
import { recordChange } from '../../operations/audit.ts'
import { once } from '../../operations/idempotency.ts'
import { withinQuota } from '../../operations/quota.ts'
import { lineageOfNew } from '../api_keys/rules.ts'
import { deleteApiKey, findApiKey, insertApiKey, insertLineage, type NewApiKey } from '../api_keys/store.ts'
import { stableApiKeyFields, toApiKey } from '../api_keys/view.ts'
import { refuseLimitedKey } from '../identities/rules.ts'
import { findPrincipal } from '../principals/store.ts'
import { defaultExpirySeconds, InvitationCreate, UserInvitation } from './schema.ts'
import { findInvitation, type InvitationRow, putInvitation } from './store.ts'
import { shownInvitation, stableInvitationFields, toInvitation } from './view.ts'

const path = '/users/:id/invitation'
const params = { id: 'usr' } as const

type Inviting = Handling<{ readonly id: Id<'usr'> }, object, { expires_in_seconds?: number }>

const noInvitation = () =>
  new Refusal('ERR_NOT_FOUND', 'This user has no invitation that waits. Create one with POST /users/{id}/invitation.')

export const userInvitationRoutes = [
  route({
    operation: 'users.invitation.create',
    summary:
      'Invite a user with a link that works once. The link is returned only in this response, and the former link of the user stops working',
    method: 'POST',
    path,
    params,
    body: InvitationCreate,
    success: 201,
    response: UserInvitation,
    secret: 'link',
    tagged: true,
    access: 'admin',
    managesKeys: true,
    errors: ['ERR_NOT_FOUND', 'ERR_IDEMPOTENCY_KEY_USED', 'ERR_TOO_MANY', 'ERR_QUOTA'],
    handle: (request) =>
      transaction(request.db, async (tx) => {
        const secret = newInvitationSecret()
        const { body, replayed } = await once(tx, request, async () => ({
          body: toInvitation(await invite(tx, request, secret), request.uri),
          generation: undefined,
        }))
        const etag = etagOf(stableInvitationFields(body as UserInvitation))
        if (replayed) return { body: body as UserInvitation, etag, replayed, warnings: ['link=told_once'] }
        // In the fragment, which browsers never send, so it reaches neither logs nor referrers.
        return { body: { ...body, link: request.uri(`/dashboard/invitation#${secret}`) }, etag }
      }),
  }),
  route({
    operation: 'users.invitation.get',
    summary: 'Get the newest invitation of a user',
    method: 'GET',
    path,
    params,
    success: 200,
    response: UserInvitation,
    tagged: true,
    access: 'admin',
    errors: ['ERR_NOT_FOUND'],
    async handle({ db, caller, params: { id }, uri }) {
      const found = await findInvitation(db, caller, id)
      if (!found) throw (await findPrincipal(db, caller, 'user', id, false)) ? noInvitation() : notFound('usr')
      const body = toInvitation(found, uri)
      return { body, etag: etagOf(stableInvitationFields(body)) }
    },
  }),
  route({
    operation: 'users.invitation.delete',
    summary: 'Withdraw the invitation of a user. Its link stops working immediately',
    method: 'DELETE',
    path,
    params,
    success: 204,
    access: 'admin',
    managesKeys: true,
    // Never waits for approval: the link may be in the wrong hands.
    alone: true,
    errors: ['ERR_NOT_FOUND', 'ERR_PRECONDITION_FAILED'],
    handle: (request) =>
      transaction(request.db, async (tx) => {
        const {
          caller,
          params: { id },
          origin,
          uri,
        } = request
        const user = await findPrincipal(tx, caller, 'user', id, true)
        if (!user) throw notFound('usr')
        const found = await findInvitation(tx, caller, id)
        if (found?.state !== 'waiting') throw noInvitation()
        checkIfMatch(request.ifMatch, stableInvitationFields(toInvitation(found, uri)))
        await deleteWaitingKey(tx, request, found)
        const withdrawn = { ...found, api_key_id: null, state: 'withdrawn' } as const
        await recordChange(tx, origin, {
          resourceId: id,
          before: shownInvitation(user, found, uri),
          after: shownInvitation(user, withdrawn, uri),
        })
        return { body: undefined }
      }),
  }),
]

/** Creates the key for the invited person, whose token no one has seen, and its invitation. */
async function invite(tx: Db, request: Inviting, secret: string): Promise<InvitationRow> {
  const {
    caller,
    origin,
    uri,
    settings,
    body,
    params: { id },
  } = request
  if (!settings.tokenSignIn)
    throw forbidden(
      'People sign in to this installation with a provider, and not with API keys, which is what an invitation gives them.',
    )
  const { lineage, parent } = await lineageOfNew(tx, caller)
  refuseLimitedKey('users.invitation.create', parent)
  const user = await findPrincipal(tx, caller, 'user', id, true)
  if (!user) throw notFound('usr')
  if (!user.active) throw forbidden('The user is inactive. Activate them first.')
  const before = await findInvitation(tx, caller, id)
  if (before?.accepted_at === null) await deleteWaitingKey(tx, request, before)
  const seconds = body.expires_in_seconds ?? defaultExpirySeconds
  const wanted: NewApiKey = {
    ownerId: id,
    tokenHash: hashToken(newToken()),
    description: 'Sign-in by invitation',
    metadata: null,
    expires_at: new Date(request.clock() + seconds * 1_000).toISOString(),
    grant: parent,
    createdBy: caller.apiKeyId,
  }
  const claim = { kind: 'api_keys', added: 1, quotas: settings.quotas } as const
  const key = await withinQuota(tx, caller, claim, () => insertApiKey(tx, caller, wanted))
  if (!key) throw notFound('usr')
  await insertLineage(tx, caller, key.id, lineage)
  const keyShown = stableApiKeyFields(toApiKey(key, uri))
  await recordChange(tx, origin, { resourceId: toId('ak', key.id), before: null, after: keyShown })
  const put = await putInvitation(tx, caller, id, {
    secretHash: hashToken(secret),
    apiKeyId: key.id,
    invitedBy: caller.ownerId,
    seconds,
  })
  const after: InvitationRow = { ...put, state: 'waiting' }
  await recordChange(tx, origin, {
    resourceId: id,
    before: before ? shownInvitation(user, before, uri) : null,
    after: shownInvitation(user, after, uri),
  })
  return after
}

/** Deleting the key ends the invitation. */
async function deleteWaitingKey(
  tx: Db,
  { caller, origin, uri }: Pick<Inviting, 'caller' | 'origin' | 'uri'>,
  { api_key_id }: InvitationRow,
): Promise<void> {
  const key = api_key_id && (await findApiKey(tx, caller, toId('ak', api_key_id), true))
  if (!key) return
  const before = stableApiKeyFields(toApiKey(key, uri))
  await deleteApiKey(tx, caller, toId('ak', key.id))
  await recordChange(tx, origin, { resourceId: toId('ak', key.id), before, after: null })
}
