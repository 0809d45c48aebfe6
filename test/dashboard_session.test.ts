import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { after, test } from 'node:test'
import { one } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { newSessionSecret, newToken } from '../src/identity/token.ts'
import { toUuid } from '../src/kernel/ids.ts'
import { type Answer, type Client, publicUrl } from './harness/client.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { behindProxy, from, policyWith, restrict } from './harness/ip.ts'
import { poll } from './harness/poll.ts'
import { newBot, newUser } from './harness/principals.ts'
import { type Browser, signIn } from './harness/session.ts'
import { tellingPart } from './isolation/matrix.ts'

const plane = await startControlPlane({ after }, { processes: 2, env: behindProxy })

const inOtherProcess = { process: 1 }
const rowOf = ({ sessionId }: Browser) =>
  one<{ whole: string; secret_hash: Buffer }>(
    plane.db,
    sql`select s::text as whole, secret_hash from dashboard_sessions s where id = ${toUuid(sessionId as `ses_${string}`)}`,
  )

/** Tries tokens from a separate address, so that one test's failures do not slow down another. */
let addresses = 0
const attempt = (client: Client, token: unknown, headers: Record<string, string | undefined> = {}) =>
  client(
    'POST',
    '/dashboard_session',
    { token },
    { headers: { authorization: undefined, 'x-forwarded-for': `198.51.100.${addresses++ % 250}`, ...headers } },
  )

test("after signing in, the cookie alone authenticates the key's owner on every process", async () => {
  const admin = await plane.newAccount()
  const { status, headers, body } = await admin('POST', '/dashboard_session', { token: admin.token })
  assert.equal(status, 201)
  const [cookie = ''] = headers.getSetCookie()
  assert.match(
    cookie,
    /^__Host-gatehouse_session=gatehouse_session_[0-9A-Za-z]{49}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict; Secure$/,
  )
  const twelveHours = 12 * 60 * 60 * 1_000
  assert.equal(Date.parse(body.expires_at) - Date.parse(body.created_at), twelveHours)
  const { body: caller } = await admin('GET', '/caller')
  const { id, created_at, expires_at, ...who } = body
  const isWho = (shown: object) => assert.deepEqual({ ...shown, ...who }, shown)
  isWho(caller)

  const browser = await signIn(admin)
  for (const process of [0, 1]) {
    isWho((await browser('GET', '/caller', undefined, { process })).body)
    const shown = await browser('GET', '/dashboard_session', undefined, { process })
    assert.equal(shown.body.id, browser.sessionId)
    assert.equal((await browser('POST', '/api_keys', {}, { process })).status, 201)
  }
  const member = await signIn(await newUser(plane, admin))
  assert.equal((await member('GET', '/dashboard_session')).body.role, 'member')
  assert.equal((await member('GET', '/audit_events')).status, 403)
})

test('only a hash of the secret is stored, and only the cookie contains it', async () => {
  const browser = await signIn(await plane.newAccount())
  const { whole, secret_hash } = await rowOf(browser)
  assert.deepEqual(secret_hash, hash('sha256', browser.secret, 'buffer'))
  assert.ok(!whole.includes(browser.secret))
  for (const answer of [
    await browser('GET', '/dashboard_session'),
    await browser('GET', '/audit_events'),
    await browser('GET', `/api_keys/${browser.secret}`),
    await browser('GET', `/nowhere?${browser.secret}`),
    await browser('POST', '/dashboard_session', { token: browser.secret }, from('198.51.100.251')),
    await browser('DELETE', '/dashboard_session'),
  ])
    assert.ok(!answer.text.includes(browser.secret) && !`${[...answer.headers]}`.includes(browser.secret))
})

test('all wrong tokens get the same 401', async () => {
  const admin = await plane.newAccount()
  const bot = await newBot(plane, admin)
  await admin('PATCH', bot.ownerUri, { active: false })
  const { body: gone } = await admin('POST', '/api_keys', {})
  await admin('DELETE', gone.uri)
  const answers: Answer[] = []
  for (const token of ['', 'x', newToken(), `${admin.token}x`, bot.token, gone.token, newSessionSecret()])
    answers.push(await attempt(admin, token))
  for (const answer of answers) {
    assert.equal(answer.status, 401, answer.text)
    assert.deepEqual(tellingPart(answer), tellingPart(answers[0] as Answer))
    assert.deepEqual(answer.headers.getSetCookie(), [])
  }
})

test('row 16: more than ten wrong tokens a minute from one address get 429, but a good token from there still signs in', async () => {
  const admin = await plane.newAccount()
  const there = { 'x-forwarded-for': '203.0.113.99' }
  const start = Date.now()
  const statuses: number[] = []
  await Promise.all(
    Array.from({ length: 30 }, async () => statuses.push((await attempt(admin, newToken(), there)).status)),
  )
  // One more every six seconds, which a busy machine may take.
  const wrong = statuses.filter((status) => status === 401).length
  assert.ok(wrong >= 10 && wrong <= 10 + Math.ceil((Date.now() - start) / 6_000), String(wrong))
  const untilLimited = () =>
    poll(
      () => attempt(admin, newToken(), there),
      ({ status }) => status === 429,
    )
  const limited = await untilLimited()
  assert.equal(limited.body.error_code, 'ERR_TOO_MANY_ATTEMPTS')
  assert.match(limited.headers.get('retry-after') ?? '', /^[1-6]$/)
  assert.equal((await attempt(admin, admin.token, there)).status, 201)
  // A success does not reset the count: at most one is possible before the next refusal.
  const after = [await attempt(admin, newToken(), there), await attempt(admin, newToken(), there)]
  assert.ok(after.some(({ status }) => status === 429))
  assert.equal((await attempt(admin, newToken())).status, 401, 'another address is not limited')
  // A token in a header is not an attempt to sign in.
  assert.equal((await admin('GET', '/caller', undefined, { headers: there })).status, 200)
})

test('requests with the cookie need the version header too', async () => {
  const browser = await signIn(await plane.newAccount())
  const answer = await browser('GET', '/caller', undefined, { headers: { 'service-version': undefined } })
  assert.equal(answer.body.error_code, 'ERR_SERVICE_VERSION')
})

test('changes with the cookie are refused unless the browser says that they come from our own pages', async () => {
  const admin = await plane.newAccount()
  const browser = await signIn(admin)
  const { body: policy } = await admin('POST', '/ip_policies', { description: 'as it was' })
  const origin = new URL(publicUrl).origin
  const neither = { 'sec-fetch-site': undefined, origin: undefined }
  const refused = [
    neither,
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'none' },
    { 'sec-fetch-site': 'Same-Origin' },
    { 'sec-fetch-site': 'cross-site', origin },
    { ...neither, origin: 'https://evil.example' },
    { ...neither, origin: `${origin}.evil.example` },
    { ...neither, origin: origin.replace('https', 'http') },
    { ...neither, origin: 'null' },
  ]
  for (const headers of refused) {
    for (const [method, path, body] of [
      ['POST', '/api_keys', {}],
      ['PATCH', policy.uri, { description: 'changed' }],
      ['PUT', `${policy.uri}/rules`, { rules: [] }],
      ['DELETE', policy.uri, undefined],
      ['DELETE', '/dashboard_session', undefined],
    ] as const) {
      const answer = await browser(method, path, body, { headers })
      assert.deepEqual(
        [answer.status, answer.body?.error_code],
        [403, 'ERR_OTHER_SITE'],
        `${method} ${path} ${JSON.stringify(headers)}`,
      )
    }
    // Reading is safe: another site's page is not shown the answer.
    assert.equal((await browser('GET', policy.uri, undefined, { headers })).body.description, 'as it was')
  }
  for (const headers of [{ 'sec-fetch-site': 'same-origin' }, { ...neither, origin }])
    assert.equal((await browser('PATCH', policy.uri, { description: 'changed' }, { headers })).status, 200)
})

test('another site cannot sign a browser in either', async () => {
  const admin = await plane.newAccount()
  for (const headers of [{ 'sec-fetch-site': 'cross-site' }, { origin: 'https://evil.example' }])
    assert.equal((await attempt(admin, admin.token, headers)).body.error_code, 'ERR_OTHER_SITE')
  for (const headers of [{ 'sec-fetch-site': 'same-origin' }, { origin: publicUrl }, {}])
    assert.equal((await attempt(admin, admin.token, headers)).status, 201)
})

test('a token takes precedence over the cookie, even an invalid one', async () => {
  const admin = await plane.newAccount()
  const [browser, member] = [await signIn(admin), await newUser(plane, admin)]
  const by = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })
  assert.equal((await browser('GET', '/caller', undefined, by(member.token))).body.owner_id, member.ownerId)
  assert.equal((await browser('GET', '/caller', undefined, by(newToken()))).status, 401)
  assert.equal((await browser('GET', '/caller', undefined, { headers: { authorization: 'Basic x' } })).status, 401)
  // And is then the API's traffic, which nothing of a session applies to.
  const elsewhere = { headers: { ...by(member.token).headers, 'sec-fetch-site': 'cross-site' } }
  assert.equal((await browser('POST', '/api_keys', {}, elsewhere)).status, 201)
  assert.equal((await admin('GET', '/dashboard_session')).status, 404, 'a token is not a session')
})

test('`dashboard` restrictions apply to sessions and signing in, not to tokens', async () => {
  const admin = await plane.newAccount()
  const [here, there] = [from('192.0.2.1'), from('192.0.2.2')]
  const browser = await signIn(admin, here)
  const only = async (ip: string) => [await policyWith(admin, `allow ${ip}`)]
  const dashboard = await restrict(admin, { type: 'dashboard', enforced: true, ip_policy_ids: await only('192.0.2.1') })
  assert.equal((await browser('GET', '/caller', undefined, inOtherProcess)).status, 200)
  const refused = await browser('GET', '/caller', undefined, there)
  assert.deepEqual([refused.status, refused.body.error_code], [403, 'ERR_IP_REFUSED'])
  assert.equal((await admin('GET', '/caller', undefined, there)).status, 200, 'a token is the traffic of the API')
  const noEntry = await admin('POST', '/dashboard_session', { token: admin.token }, there)
  assert.deepEqual([noEntry.status, noEntry.body.error_code], [403, 'ERR_IP_REFUSED'])
  assert.deepEqual(noEntry.headers.getSetCookie(), [])

  for (const [answer, operation] of [
    [refused, 'caller.get'],
    [noEntry, 'dashboard_session.sign_in'],
  ] as const) {
    const { operation_id } = answer.body.details
    const { body } = await poll(
      () => admin('GET', `/ip_refusals/${operation_id}`),
      ({ status }) => status === 200,
    )
    assert.deepEqual([body.type, body.operation, body.ip_restriction.id], ['dashboard', operation, dashboard.id])
  }
})

test('an unenforced `dashboard` restriction warns and counts', async () => {
  const admin = await plane.newAccount()
  const browser = await signIn(admin, from('192.0.2.77'))
  const { id } = await restrict(admin, { type: 'dashboard', ip_policy_ids: [await policyWith(admin)] })
  const warned = await browser('GET', '/caller')
  assert.equal(warned.headers.get('service-warning'), `ip_restriction=${id}`)
  assert.equal((await admin('GET', '/caller')).headers.get('service-warning'), null)
  const { body } = await poll(
    () => admin('GET', `/ip_restrictions/${id}/warnings`),
    (answer) => answer.body.warnings.length > 0,
  )
  assert.deepEqual([body.warnings[0].source_ip, body.warnings[0].count], ['192.0.2.77', 1])
})

test('a change made in the dashboard cannot lock its author out of the dashboard or the API', async () => {
  const admin = await plane.newAccount()
  const browser = await signIn(admin, from('192.0.2.1'))
  const [mine, others] = [await policyWith(admin, 'allow 192.0.2.0/24'), await policyWith(admin, 'allow 10.0.0.0/8')]
  const create = (type: string, policy: string, query = '') =>
    browser('POST', `/ip_restrictions${query}`, { type, enforced: true, ip_policy_ids: [policy] })
  for (const type of ['dashboard', 'api']) {
    const refused = await create(type, others)
    assert.deepEqual([refused.status, refused.body.error_code], [409, 'ERR_SELF_LOCKOUT'], type)
    assert.match(refused.body.msg, type === 'api' ? /from this API/ : /from the dashboard/)
  }
  assert.equal((await create('agent', others)).status, 201)
  const { body: restriction } = await create('dashboard', mine)
  const put = (rules: object[], query = '') => browser('PUT', `/ip_policies/${mine}/rules${query}`, { rules })
  assert.equal((await put([{ action: 'allow', cidr: '10.0.0.0/8' }])).body.error_code, 'ERR_SELF_LOCKOUT')
  const change = await browser('PATCH', restriction.uri, { ip_policy_ids: [others] })
  assert.equal(change.body.error_code, 'ERR_SELF_LOCKOUT')
  assert.equal((await browser('GET', '/caller')).status, 200)
  // With a token the dashboard is not the way that one is on.
  assert.equal((await admin('PATCH', restriction.uri, { description: 'by token' }, from('10.9.9.9'))).status, 200)
  assert.equal((await put([], '?allow_self_lockout=true')).status, 200)
  assert.equal((await browser('GET', '/caller')).status, 403)
})

test('the audit shows which session of which key made a change, and when the session began and ended', async () => {
  const admin = await plane.newAccount()
  const browser = await signIn(admin)
  const { body: caller } = await browser('GET', '/caller')
  const { body: policy } = await browser('POST', '/ip_policies', {})
  const { body: byToken } = await admin('POST', '/ip_policies', {})
  await browser('DELETE', '/dashboard_session')
  const eventsOf = async (id: string) => (await admin('GET', `/audit_events?resource_id=${id}`)).body.audit_events
  const [made] = await eventsOf(policy.id)
  assert.deepEqual([made.dashboard_session_id, made.api_key_id], [browser.sessionId, caller.api_key.id])
  assert.equal((await eventsOf(byToken.id))[0].dashboard_session_id, null)
  const events = await eventsOf(browser.sessionId)
  assert.deepEqual(
    events.map(({ operation, api_key_id }: { operation: string; api_key_id: string }) => [operation, api_key_id]),
    [
      ['dashboard_session.sign_out', caller.api_key.id],
      ['dashboard_session.sign_in', caller.api_key.id],
    ],
  )
})

test('with GATEHOUSE_DASHBOARD=off no one can sign in, and cookies are ignored', async () => {
  const admin = await plane.newAccount()
  const browser = await signIn(admin)
  await plane.startProcess({ GATEHOUSE_DASHBOARD: 'off' })
  const there = { process: plane.processes.length - 1 }
  const off = plane.clientFor(admin.token)
  for (const method of ['GET', 'POST', 'DELETE']) {
    const answer = await fetch(`${plane.processes.at(-1)?.origin}/dashboard_session`, { method })
    assert.equal(answer.status, 404)
  }
  const withCookie = { headers: { authorization: undefined, cookie: `__Host-gatehouse_session=${browser.secret}` } }
  assert.equal((await off('GET', '/caller', undefined, { ...there, ...withCookie })).status, 401)
  assert.equal((await off('GET', '/caller', undefined, there)).status, 200)
})
