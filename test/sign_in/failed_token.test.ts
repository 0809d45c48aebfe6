// Sign-ins with a token that fail: whose audit says so, why, how often, and that no token is in it.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newToken } from '../../src/identity/token.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import type { Client } from '../harness/client.ts'
import { type Account, startControlPlane } from '../harness/control_plane.ts'
import { make } from '../harness/fixtures.ts'
import { behindProxy, from, policyWith, restrict } from '../harness/ip.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { newBot, newUser } from '../harness/principals.ts'
import { tellingPart } from '../isolation/matrix.ts'

const plane = await startControlPlane({ after }, { env: behindProxy })
let addresses = 0
/** Always from another address: how often one address may fail is limited on its own. */
const elsewhere = () => {
  const number = ++addresses
  return from(`198.51.${100 + (number >> 8)}.${number & 255}`)
}
const signIn = (token: string, where = elsewhere()) =>
  plane.clientFor(token)(
    'POST',
    '/dashboard_session',
    { token },
    { headers: { ...where.headers, authorization: undefined } },
  )
const failuresOf = async (admin: Client, resource = '') =>
  (await admin('GET', `/audit_events?operation=sign_in.failed${resource && `&resource_id=${resource}`}`)).body
    .audit_events
const countFailures = async () =>
  (await plane.db.query({ text: `select count(*)::int as count from audit_events where operation = 'sign_in.failed'` }))
    .rows[0].count
const setExpired = (key: { id: string }) =>
  plane.db.query({
    text: `update api_keys set created_at = now() - interval '2 hours', expires_at = now() - interval '1 hour' where id = $1`,
    values: [toUuid(key.id as `ak_${string}`)],
  })

test('each reason is in the audit of the account whose token it is, without the token', async () => {
  const admin = await plane.newAccount()
  const expired = await make(admin, '/api_keys')
  await setExpired(expired)
  const inactive = await newUser(plane, admin)
  await admin('PATCH', inactive.ownerUri, { active: false })
  const bot = await newBot(plane, admin)
  const limited = await make(admin, '/api_keys', { scopes: ['api_keys.*', 'dashboard_session.*'] })
  const replaced = await make(admin, '/api_keys')
  await admin('POST', `${replaced.uri}/rotate`, { overlap_seconds: 3_600 })
  const overlapEnded = await make(admin, '/api_keys')
  await admin('POST', `${overlapEnded.uri}/rotate`, { overlap_seconds: 3_600 })
  await plane.db.query({
    text: `update api_key_previous_tokens set expires_at = now() - interval '1 second' where api_key_id = $1`,
    values: [toUuid(overlapEnded.id)],
  })
  const cases: [id: string, token: string, status: number, reason: string][] = [
    [expired.id, expired.token, 401, 'key_expired'],
    [inactive.keyId, inactive.token, 401, 'user_inactive'],
    [bot.keyId, bot.token, 403, 'not_a_user'],
    [limited.id, limited.token, 403, 'key_limited'],
    [replaced.id, replaced.token, 403, 'token_replaced'],
    [overlapEnded.id, overlapEnded.token, 401, 'token_replaced'],
  ]
  const wrong = await signIn(newToken())
  for (const [id, token, status, reason] of cases) {
    const answer = await signIn(token)
    assert.equal(answer.status, status, `${reason}: ${answer.text}`)
    if (status === 401) assert.deepEqual(tellingPart(answer), tellingPart(wrong), `${reason} is not told to the caller`)
    const [event] = await poll(
      () => failuresOf(admin, id),
      (events) => events.length === 1,
    )
    assert.equal(event.after.method, 'token')
    assert.equal(event.after.reason, reason)
    assert.match(event.after.owner_id, /^(usr|bot)_/)
    assert.match(event.source_ip, /^198\.51\.10/)
    assert.ok(!JSON.stringify(event).includes(token.slice(0, 30)))
  }
  await restrict(admin, {
    type: 'dashboard',
    enforced: true,
    ip_policy_ids: [await policyWith(admin, 'allow 127.0.0.1/32')],
  })
  assert.equal((await signIn(admin.token)).status, 403)
  const refused = await poll(
    () => failuresOf(admin),
    (events) => events.length === cases.length + 1,
  )
  assert.equal(refused[0].after.reason, 'address_refused')
})

test('a token that was never issued is in no audit; the metrics count it', async () => {
  const victim = await plane.newAccount()
  const before = await countFailures()
  const deleted = await make(victim, '/api_keys')
  await victim('DELETE', deleted.uri)
  for (const token of [newToken(), newToken(), 'gatehouse_short', victim.token.slice(0, -1), deleted.token])
    assert.equal((await signIn(token)).status, 401)
  await holdsFor(500, async () => (await countFailures()) === before)
  assert.equal((await failuresOf(victim)).length, 0)
  const { origin } = plane.processes[0] ?? assert.fail()
  const metrics = await (await fetch(`${origin}/metrics`)).text()
  const count = /^gatehouse_sign_ins_total\{provider="api_key",outcome="invalid_token"\} (\d+)/m.exec(metrics)?.[1]
  assert.ok(Number(count) >= 5, metrics.match(/^gatehouse_sign_ins_total.*$/gm)?.join('\n'))
})

test("dead tokens of an account fill neither its audit nor another's", async (t) => {
  const [victim, bystander] = [await plane.newAccount(), await plane.newAccount()]
  const tokens: string[] = []
  for (let count = 0; count < 12; count++) {
    const key = await make(victim, '/api_keys')
    await setExpired(key)
    tokens.push(key.token)
  }
  const start = Date.now()
  await Promise.all(Array.from({ length: 600 }, (_, index) => signIn(tokens[index % tokens.length] ?? '')))
  const oneKey = Array.from({ length: 60 }, () => signIn(tokens[0] ?? ''))
  assert.ok((await Promise.all(oneKey)).every(({ status }) => status === 401))
  const ofAccount = async ({ accountId }: Account) =>
    (
      await plane.db.query({
        text: `select count(*)::int as count from audit_events where operation = 'sign_in.failed' and account_id = $1`,
        values: [toUuid(accountId as `ac_${string}`)],
      })
    ).rows[0].count
  const written = await poll(
    () => ofAccount(victim),
    (count) => count >= 60,
  )
  const earned = Math.ceil((Date.now() - start) / 1_000) + 1
  t.diagnostic(`660 failures in ${Date.now() - start} ms: ${written} events`)
  await holdsFor(300, async () => (await ofAccount(victim)) <= 60 + earned)
  assert.equal(await ofAccount(bystander), 0)
  assert.equal((await signIn(bystander.token)).status, 201)
})
