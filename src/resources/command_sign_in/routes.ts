import { Type } from 'typebox'
import { transaction } from '../../db/transaction.ts'
import { type Handling, route } from '../../http/route.ts'
import { Closed, type Static, Text, Timestamp } from '../../http/wire.ts'
import { hashToken, newToken } from '../../identity/token.ts'
import { Refusal } from '../../kernel/errors.ts'
import { toId } from '../../kernel/ids.ts'
import { recordChange } from '../../operations/audit.ts'
import { withinQuota } from '../../operations/quota.ts'
import { expiryOfNew, lineageOfNew } from '../api_keys/rules.ts'
import { insertApiKey, insertLineage, type NewApiKey } from '../api_keys/store.ts'
import { stableApiKeyFields, toApiKey } from '../api_keys/view.ts'
import { approve, type CommandSignInRow, deny, findPending } from './store.ts'

const Code = Type.Unsafe<string>({
  type: 'string',
  pattern: '^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$',
  'x-must': 'must be a code such as BCDF-GHJK',
  examples: ['BCDF-GHJK'],
  description: 'The code that the command shows.',
})

const CommandSignIn = Closed(
  {
    client: Text(100, 'The program that asks, as it says.'),
    host: Text(255, 'The machine that it runs on, as it says.'),
    source_ip: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'The address that it asked from, as the service saw it.',
    }),
    same_address: Type.Boolean({ description: 'Whether that is the address of this request.' }),
    created_at: Timestamp,
    expires_at: Timestamp,
  },
  { title: 'CommandSignIn' },
)

type Calling = Pick<Handling<object, object, unknown>, 'origin'>
const toShown = (row: CommandSignInRow, { origin }: Calling): Static<typeof CommandSignIn> => ({
  client: row.client,
  host: row.host,
  source_ip: row.source_ip,
  same_address: row.source_ip !== null && row.source_ip === origin.sourceIp,
  created_at: row.created_at,
  expires_at: row.expires_at,
})

const noSuchCode = () =>
  new Refusal(
    'ERR_NOT_FOUND',
    'No command waits with this code: it was mistyped, answered already, or has expired. Run gatehouse login again.',
  )

/** A key that signed in another command would outlive its own expiry, and no person would have compared the codes. */
function requireSession({ caller }: Pick<Handling<object, object, unknown>, 'caller'>): void {
  if (!caller.sessionId)
    throw new Refusal('ERR_NOT_FOUND', 'A command is signed in by a person in the dashboard, not by a bearer token.')
}

export const commandSignInRoutes = [
  route({
    operation: 'command_sign_in.look_up',
    summary: 'Get a command-line sign-in that waits for approval',
    method: 'GET',
    path: '/command_sign_in',
    query: Closed({ code: Type.Optional(Code) }),
    success: 200,
    response: CommandSignIn,
    access: 'anyone',
    errors: ['ERR_NOT_FOUND'],
    handle: (request) =>
      transaction(request.db, async (tx) => {
        requireSession(request)
        const row = request.query.code && (await findPending(tx, request.query.code))
        if (!row) throw noSuchCode()
        return { body: toShown(row, request) }
      }),
  }),
  route({
    operation: 'command_sign_in.answer',
    summary: 'Approve or deny a command-line sign-in. An approved command gets an API key that expires',
    method: 'POST',
    path: '/command_sign_in',
    body: Closed({ code: Code, approve: Type.Boolean({ description: 'False denies it.' }) }),
    success: 200,
    response: Closed({ approved: Type.Boolean() }, { title: 'CommandSignInAnswer' }),
    access: 'anyone',
    openToViewers: true,
    managesKeys: true,
    errors: ['ERR_NOT_FOUND', 'ERR_TOO_MANY', 'ERR_QUOTA'],
    handle: (request) =>
      transaction(request.db, async (tx) => {
        requireSession(request)
        const row = await findPending(tx, request.body.code)
        if (!row) throw noSuchCode()
        if (!request.body.approve) {
          await deny(tx, row.id)
          const { client, host, source_ip } = row
          await recordChange(
            tx,
            { ...request.origin, operation: 'sign_in.failed' },
            {
              resourceId: toId('ac', request.caller.accountId),
              before: null,
              after: { method: 'command', reason: 'denied', client, host, asked_from: source_ip },
            },
          )
          return { body: { approved: false } }
        }
        const { caller, origin, uri, clock, settings } = request
        const { lineage, parent } = await lineageOfNew(tx, caller)
        const until = new Date(clock() + settings.loginSeconds * 1_000).toISOString()
        const inTime = caller.apiKeyExpiresAt === null || Date.parse(until) <= Date.parse(caller.apiKeyExpiresAt)
        const wanted: NewApiKey = {
          ownerId: caller.ownerId,
          // A token that is never revealed: the command gets its own when it collects the key.
          tokenHash: hashToken(newToken()),
          description: `gatehouse login on ${row.host}`,
          metadata: null,
          expires_at: expiryOfNew(caller, inTime ? until : caller.apiKeyExpiresAt),
          grant: parent,
          createdBy: caller.apiKeyId,
          signIn: 'command',
        }
        const claim = { kind: 'api_keys', added: 1, quotas: settings.quotas } as const
        const key = await withinQuota(tx, caller, claim, () => insertApiKey(tx, caller, wanted))
        if (!key) throw noSuchCode()
        await insertLineage(tx, caller, key.id, lineage)
        await approve(tx, caller, row.id, key.id)
        await recordChange(tx, origin, {
          resourceId: toId('ak', key.id),
          before: null,
          after: { ...stableApiKeyFields(toApiKey(key, uri)), client: row.client, asked_from: row.source_ip },
        })
        return { body: { approved: true } }
      }),
  }),
]
