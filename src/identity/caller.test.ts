import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newDatabase } from '../../test/harness/control_plane.ts'
import { one, openPool, run } from '../db/pool.ts'
import { type SqlFragment, sql } from '../db/sql.ts'
import { newUuid, toId, type Uuid } from '../kernel/ids.ts'
import { parseAddress } from '../kernel/ip/address.ts'
import {
  type Authentication,
  bearerToken,
  type Caller,
  findCaller,
  findCallerBySession,
  findKeyOfToken,
  noteSessionUse,
  restrictionTypesFor,
  sessionHasEnded,
  tokenReplaced,
} from './caller.ts'
import { hashToken, newSessionSecret, newToken } from './token.ts'

const db = openPool(
  { url: await newDatabase(), poolSize: 4, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 },
  () => {},
)
after(() => db.end())
const home = parseAddress('10.0.0.1')

/** An account with one owner, and a key of theirs. */
async function newKey(kind: 'user' | 'bot' = 'user') {
  const role = kind === 'user' ? 'admin' : 'member'
  const [accountId, owner, key, token] = [newUuid(), newUuid(), newUuid(), newToken()]
  await run(db, sql`insert into accounts (id, name) values (${accountId}, ${accountId})`)
  await run(
    db,
    sql`
    insert into principals (account_id, id, kind, name, email, role)
    values (${accountId}, ${owner}, ${kind}, 'owner', ${kind === 'user' ? `${owner}@a.example` : null}, ${role})`,
  )
  await run(
    db,
    sql`
    insert into api_keys (account_id, id, owner_id, owner_kind, token_hash)
    values (${accountId}, ${key}, ${owner}, ${kind}, ${hashToken(token)})`,
  )
  const setKey = (values: SqlFragment) => run(db, sql`update api_keys set ${values} where id = ${key}`)
  const setOwner = (values: SqlFragment) => run(db, sql`update principals set ${values} where id = ${owner}`)
  /** As a rotation leaves it. */
  const replace = async (previous: string, expires: SqlFragment) => {
    await setKey(sql`token_hash = ${hashToken(newToken())}, rotated_at = now()`)
    await run(
      db,
      sql`
      insert into api_key_previous_tokens (account_id, api_key_id, token_hash, expires_at)
      values (${accountId}, ${key}, ${hashToken(previous)}, ${expires})`,
    )
  }
  const signIn = async () => {
    const [session, secret] = [newUuid(), newSessionSecret()]
    await run(
      db,
      sql`
      insert into dashboard_sessions (account_id, id, api_key_id, token_hash, secret_hash, expires_at)
      values (${accountId}, ${session}, ${key}, ${hashToken(token)}, ${hashToken(secret)}, now() + interval '12 hours')`,
    )
    const set = (values: SqlFragment) => run(db, sql`update dashboard_sessions set ${values} where id = ${session}`)
    return { session, secret, set }
  }
  return { accountId, owner, key, token, setKey, setOwner, replace, signIn }
}
const said = ({ caller, ...others }: Authentication) => ({ ...others, ...(caller && { is: caller.apiKeyId }) })
const nothing = {}

test('a token speaks for its owner with the role, rights and limits of the account as they are now', async () => {
  const { accountId, owner, key, token, setKey } = await newKey('bot')
  const { caller } = await findCaller(db, token, home)
  assert.deepEqual(caller, {
    ...{ accountId, ownerId: toId('bot', owner), role: 'member', apiKeyId: toId('ak', key) },
    ...{ apiKeyExpiresAt: null, apiKeyRotatedAt: null, scopes: ['*'], allowedCidrs: [], tokenReplaced: false },
    ...{ traffic: 'api', approvalRequiredFor: [], requestsPerMinute: null, policyRevision: 0, restricted: false },
  })
  await setKey(sql`scopes = array['api_keys.get']`)
  assert.deepEqual((await findCaller(db, token, home)).caller?.scopes, ['api_keys.get'])
})

test('what is not a token, an unknown one, and one whose owner is inactive are good for nothing', async () => {
  const { token, setOwner } = await newKey()
  for (const text of [undefined, '', `${token}x`, newToken(), newSessionSecret()])
    assert.deepEqual(await findCaller(db, text, home), nothing, text)
  await setOwner(sql`active = false`)
  assert.deepEqual(await findCaller(db, token, home), nothing)
})

test('an expired key is good for nothing but a line in the log', async () => {
  const { key, token, setKey } = await newKey()
  await setKey(sql`expires_at = now() + interval '1 minute'`)
  assert.equal((await findCaller(db, token, home)).caller?.apiKeyId, toId('ak', key))
  await setKey(sql`expires_at = now()`)
  assert.deepEqual(await findCaller(db, token, home), { expiredKeyId: toId('ak', key) })
})

test('from outside its ranges a key is good for nothing but an event in the audit', async () => {
  const { key, token, setKey } = await newKey()
  await setKey(sql`allowed_cidrs = array['10.0.0.0/8']::cidr[]`)
  assert.deepEqual(said(await findCaller(db, token, home)), { is: toId('ak', key) })
  for (const source of [parseAddress('11.0.0.1'), undefined]) {
    const { caller, outsideRanges } = await findCaller(db, token, source)
    assert.deepEqual([caller, outsideRanges?.apiKeyId], [undefined, toId('ak', key)])
  }
})

test('a replaced token works until its overlap ends, and is known for what it is', async () => {
  const { key, token, replace } = await newKey()
  await replace(token, sql`now() + interval '1 minute'`)
  const found = await findCaller(db, token, home)
  assert.deepEqual([found.caller?.apiKeyId, found.caller?.tokenReplaced], [toId('ak', key), true])
  assert.deepEqual(found.replacedToken, hashToken(token))
  assert.ok(found.caller?.apiKeyRotatedAt)
  await run(db, sql`update api_key_previous_tokens set expires_at = now() where api_key_id = ${key}`)
  assert.equal((await findCaller(db, token, home)).caller, undefined)
})

test('a session has the rights of its owner, passes both kinds of restriction, and shows which session it is', async () => {
  const { accountId, owner, key, signIn } = await newKey()
  const { session, secret } = await signIn()
  const { caller } = await findCallerBySession(db, secret, home)
  assert.deepEqual(
    [caller?.accountId, caller?.ownerId, caller?.apiKeyId, caller?.sessionId, caller?.traffic, caller?.tokenReplaced],
    [accountId, toId('usr', owner), toId('ak', key), toId('ses', session), 'dashboard', false],
  )
  assert.deepEqual(restrictionTypesFor({ traffic: 'dashboard' }), ['dashboard', 'api'])
  assert.deepEqual(restrictionTypesFor({ traffic: 'api' }), ['api'])
  for (const text of [undefined, newToken(), newSessionSecret(), `${secret}x`])
    assert.deepEqual(await findCallerBySession(db, text, home), nothing, text)
})

test('a caller is restricted by what its traffic must pass', async () => {
  const { accountId, token, signIn } = await newKey()
  const { secret } = await signIn()
  const restricted = async () => [
    (await findCaller(db, token, home)).caller?.restricted,
    (await findCallerBySession(db, secret, home)).caller?.restricted,
  ]
  const restrict = (type: string) =>
    run(
      db,
      sql`insert into ip_restrictions (account_id, id, type, enforced) values (${accountId}, ${newUuid()}, ${type}, false)`,
    )
  await restrict('endpoints')
  assert.deepEqual(await restricted(), [false, false])
  await restrict('dashboard')
  assert.deepEqual(await restricted(), [false, true])
  await restrict('api')
  assert.deepEqual(await restricted(), [true, true])
})

test('a session ends with its time, an hour after its last use, its key, its token and the rights of its key', async () => {
  const ends: Record<
    string,
    (of: Awaited<ReturnType<typeof newKey>>, set: (values: SqlFragment) => Promise<void>) => unknown
  > = {
    time: (_, set) => set(sql`expires_at = now()`),
    use: (_, set) => set(sql`last_used_at = now() - interval '61 minutes'`),
    key: ({ setKey }) => setKey(sql`expires_at = now()`),
    token: ({ setKey }) => setKey(sql`token_hash = ${hashToken(newToken())}`),
    overlap: ({ token, replace }) => replace(token, sql`now()`),
    scopes: ({ setKey }) => setKey(sql`scopes = array['*.get']`),
    owner: ({ setOwner }) => setOwner(sql`active = false`),
  }
  for (const [what, end] of Object.entries(ends)) {
    const known = await newKey()
    const { secret, set } = await known.signIn()
    await set(sql`last_used_at = now() - interval '59 minutes', expires_at = now() + interval '1 minute'`)
    assert.ok((await findCallerBySession(db, secret, home)).caller, what)
    await end(known, set)
    assert.equal((await findCallerBySession(db, secret, home)).caller, undefined, what)
  }
  const bot = await newKey('bot')
  assert.deepEqual(await findCallerBySession(db, (await bot.signIn()).secret, home), nothing, 'bots have none')
})

test('a session goes on for the overlap of its token, and cannot manage keys then', async () => {
  const { token, replace, signIn } = await newKey()
  const { secret } = await signIn()
  await replace(token, sql`now() + interval '1 minute'`)
  const { caller } = await findCallerBySession(db, secret, home)
  assert.equal(caller?.tokenReplaced, true)
  assert.equal(tokenReplaced(caller as Caller).code, 'ERR_TOKEN_REPLACED')
  assert.match(tokenReplaced(caller as Caller).message, /^The token that opened this session was replaced/)
  const byToken = (await findCaller(db, token, home)).caller as Caller
  assert.match(tokenReplaced(byToken).message, /^This token was replaced by a rotation/)
})

test('use of a session is noted once a minute, and keeps it from ending', async () => {
  const { signIn, token } = await newKey()
  const { session, secret, set } = await signIn()
  const caller = (await findCaller(db, token, home)).caller as Caller
  const age = async () =>
    (
      await one<{ seconds: number }>(
        db,
        sql`select extract(epoch from now() - last_used_at)::int as seconds from dashboard_sessions where id = ${session}`,
      )
    ).seconds
  await set(sql`last_used_at = now() - interval '50 seconds'`)
  await noteSessionUse(db, caller, session as Uuid)
  assert.ok((await age()) >= 50)
  await set(sql`last_used_at = now() - interval '59 minutes'`)
  await noteSessionUse(db, { ...caller, accountId: newUuid() }, session as Uuid)
  assert.ok((await age()) >= 59 * 60, 'of another account')
  await noteSessionUse(db, caller, session as Uuid)
  assert.ok((await age()) < 50)
  assert.ok((await findCallerBySession(db, secret, home)).caller)
})

test('sessions that have ended are found by their time or their last use', async () => {
  const { signIn } = await newKey()
  const { session, set } = await signIn()
  const hasEnded = async () =>
    (
      await one<{ ended: boolean }>(
        db,
        sql`select ${sessionHasEnded} as ended from dashboard_sessions s where id = ${session}`,
      )
    ).ended
  assert.equal(await hasEnded(), false)
  await set(sql`last_used_at = now() - interval '61 minutes'`)
  assert.equal(await hasEnded(), true)
  await set(sql`last_used_at = now(), expires_at = now()`)
  assert.equal(await hasEnded(), true)
})

test('whose token it is can be found when it is good for nothing', async () => {
  const user = await newKey('user')
  const bot = await newKey('bot')
  const found = (token: string) => findKeyOfToken(db, token)
  assert.deepEqual(await found(user.token), {
    ...{ accountId: user.accountId, apiKeyId: toId('ak', user.key), ownerId: toId('usr', user.owner) },
    ...{ isActive: true, isReplaced: false },
  })
  await user.setOwner(sql`active = false`)
  await user.replace(user.token, sql`now()`)
  const replaced = await found(user.token)
  assert.deepEqual([replaced?.isActive, replaced?.isReplaced], [false, true])
  assert.equal((await found(bot.token))?.ownerId, toId('bot', bot.owner))
  for (const text of ['', newToken(), newSessionSecret()]) assert.equal(await found(text), undefined)
})

test('one Authorization header with Bearer and one token is taken, and nothing else', () => {
  assert.equal(bearerToken(['Bearer abc']), 'abc')
  assert.equal(bearerToken(['bEARER a=b.c-d']), 'a=b.c-d')
  for (const headers of [
    ...[undefined, [], ['Bearer'], ['Bearer '], ['Bearer  a'], ['Bearer a b'], ['Bearer a,b'], ['xBearer a']],
    ...[['Bearer a '], ['Basic a'], ['Bearer a', 'Bearer a'], [' Bearer a'], ['']],
  ])
    assert.equal(bearerToken(headers), undefined, JSON.stringify(headers))
})
