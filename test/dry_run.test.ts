// `dry_run=true`: every operation that changes something is tried, and nothing is changed. Made from the list of routes.
import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { many } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { transaction } from '../src/db/transaction.ts'
import type { Route } from '../src/http/route.ts'
import { toUuid } from '../src/kernel/ids.ts'
import { routes } from '../src/resources/routes.ts'
import type { Answer, Client } from './harness/client.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { newUser } from './harness/principals.ts'
import { signIn } from './harness/session.ts'
import { expectations, writeTo } from './isolation/expectations.ts'
import { callOf, contentsOf, type Ids, tellingPart } from './isolation/matrix.ts'

const plane = await startControlPlane({ after }, { env: { GATEHOUSE_TRUSTED_PROXIES: '127.0.0.1' } })
writeTo(plane.db)
const [admin, stranger] = [await plane.newAccount(), await plane.newAccount()]
const viewer = await newUser(plane, admin, 'viewer')

const changes = routes.filter(({ query }) => query?.properties.dry_run)
/** Those take the cookie of a session, and have tests of their own below. */
const withSession = ['dashboard_session.sign_out', 'command_sign_in.answer']

/** Numbers that are not rolled back with a transaction, and that readers wait for. */
const countersOf = () =>
  many<{ name: string; last_value: number }>(
    plane.db,
    sql`
    select sequencename as name, last_value from pg_sequences
    where sequencename in ('outbox_generations', 'audit_positions') order by 1`,
  )
const stateOf = async () => ({ rows: await contentsOf(plane.db), counters: await countersOf() })

/** Without what is another one each time: ids, times, generations, and the value that proves a domain. */
const telling = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value ?? null)
      .replaceAll(/\b[a-z]+_[0-9a-z]{26}\b/g, (id) => id.replace(/_.*/, '_…'))
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'time')
      .replaceAll(/"generation":\d+/g, '"generation":null')
      .replaceAll(/gatehouse-verification=[\w-]+/g, 'proof'),
  )
const without = (body: Record<string, unknown> | undefined, field: string | undefined) =>
  body && Object.fromEntries(Object.entries(body).filter(([name]) => name !== field))

/** What the audit says of a call, in the order in which it was written. */
const auditOf = (operationId: string | null) =>
  many(
    plane.db,
    sql`
    select resource_id as resource, before, after from audit_events
    where operation_id = ${operationId} and account_id is not null order by id`,
  )

async function tryAndDo(route: Route, call: (query: string) => Promise<Answer>): Promise<void> {
  const before = await stateOf()
  const tried = await call('?dry_run=true')
  assert.deepEqual(await stateOf(), before, `a dry run of ${route.operation} changed the database`)
  const done = await call('')
  assert.equal(done.status, route.success, done.text)
  assert.equal(tried.status, 200, `${route.operation}: ${tried.text}`)
  assert.deepEqual(telling(tried.body.response), telling(without(done.body, route.secret)), route.operation)
  assert.ok(!route.secret || !(route.secret in (tried.body.response ?? {})), `${route.operation} shows a secret`)
  const recorded = await auditOf(done.headers.get('operation-id'))
  assert.ok(recorded.length > 0, `${route.operation} changed nothing, so it shows nothing`)
  assert.deepEqual(telling(tried.body.differences), telling(recorded), route.operation)
  for (const header of ['set-cookie', 'etag', 'location', 'service-generation', 'service-applied'])
    assert.equal(tried.headers.get(header), null, `${route.operation} ${header}`)
}

/** For a caller who may not make the change, trying it says no more than making it. */
async function sameRefusal(route: Route, caller: Client, ids: Ids, body: object | undefined): Promise<void> {
  const call = callOf(route, caller)
  const done = await call(ids, body)
  // Signing in is open to viewers, who then sign in.
  if (done.status < 400) return
  assert.deepEqual(tellingPart(await call(ids, body, '?dry_run=true')), tellingPart(done), route.operation)
}

test('every operation that is not a GET can be tried, except those that only ask', () => {
  const others = routes.filter(({ method, query }) => method !== 'GET' && !query?.properties.dry_run)
  assert.deepEqual(others.map(({ operation }) => operation).sort(), [
    'change_sets.preview',
    'ip_checks.create',
    'ip_policies.impact',
  ])
  assert.ok(changes.length > 60)
})

test('a dry run changes nothing, and says what the change then does', async () => {
  for (const route of changes) {
    // They take a second admin.
    if ([...withSession, 'change_sets.approve', 'approval_policy.replace'].includes(route.operation)) continue
    const { path, body } = expectations[route.operation] ?? assert.fail(route.operation)
    const ids = (await path?.(admin)) ?? {}
    const sent = route.body && (await body?.(admin))
    await sameRefusal(route, viewer, ids, sent)
    if (path) await sameRefusal(route, stranger, ids, sent)
    const call = callOf(route, admin)
    await tryAndDo(route, (query) => call(ids, sent, query))
  }
})

test('a session can try to sign out, and to let a command sign in', async () => {
  const origin = plane.processes[0]?.origin ?? ''
  const challenge = createHash('sha256').update(randomUUID()).digest('base64url')
  const started = await fetch(`${origin}/sign_in/command`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ challenge, client: 'gatehouse', host: 'laptop' }),
  })
  const { code } = (await started.json()) as { code: string }
  const browser = await signIn(admin)
  // Written by the first request of a session.
  await browser('GET', '/caller')
  for (const [operation, body] of [
    ['command_sign_in.answer', { code, approve: true }],
    ['dashboard_session.sign_out', undefined],
  ] as const) {
    const route = routes.find((each) => each.operation === operation) ?? assert.fail(operation)
    await tryAndDo(route, (query) => browser(route.method, route.path + query, body))
  }
})

test('If-Match and Idempotency-Key mean what they mean for the change, and wait=applied waits for nothing', async () => {
  const { body: policy, headers } = await admin('POST', '/ip_policies', { description: 'one' })
  const etag = headers.get('etag') ?? ''
  const patch = (ifMatch: string) =>
    admin(
      'PATCH',
      `${policy.uri}?dry_run=true&wait=applied`,
      { description: 'two' },
      { headers: { 'if-match': ifMatch } },
    )
  assert.equal((await patch('"other"')).status, 412)
  assert.deepEqual((await patch(etag)).body.differences[0].after.description, 'two')
  assert.equal((await admin('GET', policy.uri)).headers.get('etag'), etag)

  const key = { headers: { 'idempotency-key': randomUUID() } }
  const create = (query: string, description: string) => admin('POST', `/ip_policies${query}`, { description }, key)
  assert.equal((await create('?dry_run=true', 'three')).status, 200)
  const made = await create('', 'three')
  assert.deepEqual([made.status, made.headers.get('idempotency-replayed')], [201, null], 'the dry run used the key')
  const repeated = await create('?dry_run=true', 'three')
  assert.equal(repeated.headers.get('idempotency-replayed'), 'true')
  assert.deepEqual([repeated.body.response.id, repeated.body.differences], [made.body.id, []])
  assert.equal((await create('?dry_run=true', 'four')).status, 409)
})

test('a change that would be refused is refused in the same words, and leaves the connection usable', async () => {
  const { body: policy } = await admin('POST', '/ip_policies', {})
  await admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id] })
  const { body: last } = await admin('GET', `/users/${admin.adminId}`)
  for (const [method, path, body] of [
    ['DELETE', policy.uri, undefined],
    ['PATCH', last.uri, { role: 'member' }],
    ['POST', '/ip_policies', { description: 'x'.repeat(256) }],
  ] as const) {
    const [tried, done] = [await admin(method, `${path}?dry_run=true`, body), await admin(method, path, body)]
    assert.ok(done.status >= 400, done.text)
    assert.deepEqual(tellingPart(tried), tellingPart(done))
  }
  assert.equal((await admin('POST', '/ip_policies?dry_run=maybe', {})).status, 400)
  assert.equal((await admin('GET', `${policy.uri}?dry_run=true`)).status, 400, 'reading is not a change')
})

test('dry runs and changes of one thing at the same time do not disturb each other', async () => {
  const { body: policy } = await admin('POST', '/ip_policies', {})
  const before = await countersOf()
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, index) =>
      admin('PATCH', `${policy.uri}${index % 3 ? '?dry_run=true' : ''}`, { description: `change ${index}` }),
    ),
  )
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
  const used = (await countersOf()).map(({ last_value }, index) => last_value - (before[index]?.last_value ?? 0))
  assert.deepEqual(used, [4, 4], 'only changes take a place in the audit, and a generation')
  assert.match((await admin('GET', policy.uri)).body.description, /^change [0369]$/)
})

test('a dry run waits for a lock no longer than a change, and holds none afterwards', async () => {
  const { body: policy } = await admin('POST', '/ip_policies', {})
  const { origin } = await plane.startProcess({ GATEHOUSE_DATABASE_TIMEOUT_MS: '300' })
  const tryIt = () =>
    fetch(`${origin}/ip_policies/${policy.id}?dry_run=true`, {
      method: 'PATCH',
      headers: {
        authorization: `Bearer ${admin.token}`,
        'service-version': '2',
        'content-type': 'application/json',
      },
      body: JSON.stringify({ description: 'later' }),
    })
  await transaction(plane.db, async (tx) => {
    await many(tx, sql`select from ip_policies where id = ${toUuid(policy.id)} for update`)
    assert.equal((await tryIt()).status, 503)
  })
  const free = await many(
    plane.db,
    sql`select id from ip_policies where id = ${toUuid(policy.id)} for update skip locked`,
  )
  assert.equal(free.length, 1)
})
