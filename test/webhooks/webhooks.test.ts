// Audit events sent to receivers: what arrives, in which order, how often, and where it may be sent at all.
import assert from 'node:assert/strict'
import { createServer, type Socket } from 'node:net'
import { after, type TestContext, test } from 'node:test'
import pg from 'pg'
import { Webhook } from 'standardwebhooks'
import { one, queryOn } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { newUuid, toUuid } from '../../src/kernel/ids.ts'
import { type Account, startControlPlane } from '../harness/control_plane.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { sized } from '../harness/thorough.ts'
import { accountUuid, addEvents as addEventsTo, deliveriesOf, newDestination } from './destinations.ts'
import { webhookEnv } from './environment.ts'
import { type Received, startReceiver } from './receiver.ts'
import { storm } from './storm.ts'

const plane = await startControlPlane({ after }, { processes: 2, env: webhookEnv })
const addEvents = (admin: Account, resources: readonly string[], operation?: string) =>
  addEventsTo(plane, admin, resources, operation)

/** Another transaction, which holds up the processes. */
async function beginElsewhere(t: TestContext) {
  const client = new pg.Client({ connectionString: plane.databaseUrl })
  await client.connect()
  t.after(() => client.end())
  await client.query('begin')
  return {
    query: (text: string, values?: unknown[]) => client.query(text, values),
    addEvents: (admin: Account, resources: readonly string[], operation?: string) =>
      addEventsTo({ db: { query: (statement) => queryOn(client, statement) } }, admin, resources, operation),
    commit: () => client.query('commit'),
  }
}

/** How many statements like this wait for a lock. */
const stopped = (statement: string) => async () =>
  (
    await one<{ count: number }>(
      plane.db,
      sql`
      select count(*) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query ~ ${statement}`,
    )
  ).count

// `npm run drill -- webhooks` sends 10,000.
const events = sized(300, 3_000)
test(`${events} events to a receiver that is killed and slowed arrive, in order per resource, after their commit`, async (t) => {
  const { faults, figures, refused } = await storm(t, plane, events)
  t.diagnostic(figures)
  assert.deepEqual(faults, [])
  assert.equal(refused, 0, 'signatures')
})

test('a change arrives as the audit shows it, signed, and only what the filter names', async (t) => {
  const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
  const receiver = await startReceiver(t)
  const destination = await newDestination(admin, receiver, { operations: ['bot_users.*'], description: 'siem' })
  assert.match(destination.secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
  const shown = (await admin('GET', destination.uri)).body
  assert.deepEqual([shown.secret, shown.status.code, shown.enabled], [null, 'nothing_sent_yet', true])
  await other('POST', '/bot_users', { name: 'of another account' })
  await admin('POST', '/api_keys', {})
  const bot = (await admin('POST', '/bot_users', { name: 'mine' })).body
  await poll(() => receiver.received.length > 0)
  const [first] = receiver.received as [Received]
  const { body } = await admin('GET', `/audit_events?resource_id=${bot.id}`)
  assert.deepEqual(first.data, body.audit_events[0])
  assert.deepEqual([first.type, first.id], ['bot_users.create', body.audit_events[0].id])
  const [delivery] = await poll(
    () => deliveriesOf(admin, destination.id),
    ([each]) => each.status !== 'pending',
  )
  assert.deepEqual(
    [delivery.id, delivery.status, delivery.attempts, delivery.last_status],
    [first.id, 'delivered', 1, 204],
  )
  await holdsFor(700, () => receiver.received.length === 1)
  assert.ok((await admin('GET', destination.uri)).body.last_delivered_at)
  const audited = await admin('GET', '/audit_events?operation=webhook_destinations.*')
  assert.ok(!audited.text.includes(destination.secret), 'the audit has no secret')
})

test('a test event goes to its destination, bypassing the filter, and to no other', async (t) => {
  const admin = await plane.newAccount()
  const [one, two] = [await startReceiver(t), await startReceiver(t)]
  const destination = await newDestination(admin, one, { operations: ['users.create'] })
  await newDestination(admin, two, { operations: ['webhook_destinations.test'] })
  assert.equal((await admin('POST', `${destination.uri}/test`, {})).status, 200)
  await poll(() => one.received.length === 1)
  assert.equal(one.received[0]?.type, 'webhook_destinations.test')
  assert.equal(two.received.length, 0)
})

test('nothing is sent before its commit, and a later commit with an older position is not missed', async (t) => {
  const admin = await plane.newAccount()
  const receiver = await startReceiver(t)
  await newDestination(admin, receiver, { operations: ['x.*'] })
  const late = await beginElsewhere(t)
  await late.addEvents(admin, ['late'], 'x.late')
  await addEvents(admin, ['early'])
  await holdsFor(800, () => receiver.received.length === 0)
  await late.commit()
  await poll(() => receiver.received.length === 2)
  assert.deepEqual(receiver.received.map(({ resource }) => resource).sort(), ['early', 'late'])
})

test('a failing event holds up only its own resource; it is given up after the last attempt, and a replay sends it', async (t) => {
  const admin = await plane.newAccount()
  let isPoison = true
  const receiver = await startReceiver(t, ({ resource, type }) =>
    isPoison && resource === 'bad' && type === 'x.first' ? { status: 500 } : undefined,
  )
  const destination = await newDestination(admin, receiver, { operations: ['x.*'] })
  await addEvents(admin, ['bad'], 'x.first')
  await addEvents(admin, ['bad', 'good', 'better'], 'x.second')
  await poll(() => receiver.received.length === 2)
  assert.deepEqual(receiver.received.map(({ resource }) => resource).sort(), ['better', 'good'])
  const pending = () => deliveriesOf(admin, destination.id, '?status=pending')
  // A delivery is pending until the response to it has been written down.
  const waiting = await poll(pending, ({ length }) => length <= 2)
  assert.deepEqual(
    waiting.map(({ operation }: { operation: string }) => operation),
    ['x.second', 'x.first'],
  )
  await poll(() => receiver.received.length === 3)
  const dead = await deliveriesOf(admin, destination.id, '?status=dead')
  assert.deepEqual(
    dead.map(({ attempts, last_status, last_error }: Record<string, unknown>) => [attempts, last_status, last_error]),
    [[9, 500, 'status 500']],
  )
  isPoison = false
  const { body } = await admin('POST', `${destination.uri}/replay`, { since: '2026-01-01T00:00:00Z' })
  assert.deepEqual(body, { replayed: 1 })
  await poll(() => receiver.received.length === 4)
  assert.equal(receiver.received.at(-1)?.type, 'x.first')
  await poll(pending, ({ length }) => length === 0)
  const again = await admin('POST', `${destination.uri}/replay`, { event_ids: [dead[0].id] })
  assert.deepEqual(again.body, { replayed: 1 })
  await poll(() => receiver.received.length === 5)
  assert.equal(receiver.received[3]?.id, receiver.received[4]?.id, 'the same webhook-id')
  const stranger = await plane.newAccount()
  const foreign = await startReceiver(t)
  const theirs = await newDestination(stranger, foreign)
  const stolen = await stranger('POST', `${theirs.uri}/replay`, { event_ids: [dead[0].id] })
  assert.deepEqual(stolen.body, { replayed: 0 })
})

for (const [what, method, path, body, waiting] of [
  ['a replay', 'POST', '/replay', { since: '2026-01-01T00:00:00Z' }, 'update webhook_progress\\s+set wake_at'],
  ['a deletion', 'DELETE', '', undefined, 'select from webhook_progress'],
] as const)
  test(`${what} and a process that adds deliveries do not wait for each other in a circle`, async (t) => {
    const admin = await plane.newAccount()
    const { id, uri } = await newDestination(admin, await startReceiver(t), { operations: ['x.*'] })
    const filling = await beginElsewhere(t)
    const place = [accountUuid(admin), toUuid(id)]
    await filling.query('select from webhook_progress where account_id = $1 and destination_id = $2 for update', place)
    const answer = admin(method, uri + path, body)
    // It has come as far as it can.
    await poll(stopped(waiting), (count) => count === 1)
    await filling.query(
      `insert into webhook_deliveries (account_id, destination_id, event_id, position, operation, resource_id, status)
       values ($1, $2, $3, 0, 'x.y', 'z', 'delivered')`,
      [...place, newUuid()],
    )
    await filling.commit()
    assert.ok([200, 204].includes((await answer).status))
  })

test('during a rotation events have both signatures', async (t) => {
  const admin = await plane.newAccount()
  const receiver = await startReceiver(t)
  const destination = await newDestination(admin, receiver, { operations: ['x.*'] })
  const rotated = await admin('POST', `${destination.uri}/rotate`, { overlap_seconds: 3_600 })
  assert.notEqual(rotated.body.secret, destination.secret)
  assert.ok(rotated.body.previous_secret_expires_at)
  await addEvents(admin, ['a'])
  await poll(() => receiver.received.length === 1)
  const headers = receiver.received[0]?.headers ?? {}
  assert.equal(String(headers['webhook-signature']).split(' ').length, 2)
  // The receiver knew the old secret only. With no overlap, it knows none.
  await admin('POST', `${destination.uri}/rotate`, { overlap_seconds: 0 })
  await addEvents(admin, ['b'])
  await poll(() => receiver.state.refused > 0)
  assert.throws(() => new Webhook(destination.secret).verify('{}', headers as Record<string, string>))
})

test('a new URL, secret and filter count for every event that comes after them, even if its sender is already at work', async (t) => {
  const admin = await plane.newAccount()
  const [old, present] = [await startReceiver(t), await startReceiver(t)]
  const { id, uri } = await newDestination(admin, old, { operations: ['x.*'] })
  const changing = await beginElsewhere(t)
  await changing.query('lock table webhook_deliveries')
  await addEvents(admin, ['a'])
  // A sender has read the destination, and now looks for what is due.
  await poll(stopped('select event_id, attempts from'), (count) => count > 0)
  const rotated = await admin('POST', `${uri}/rotate`, { overlap_seconds: 0 })
  present.state.secrets.push(rotated.body.secret)
  // Through the API it would wait for the lock.
  await changing.query(`update webhook_destinations set url = $1, operations = '{x.create}' where id = $2`, [
    present.url(),
    toUuid(id),
  ])
  await changing.addEvents(admin, ['b'], 'x.delete')
  await changing.addEvents(admin, ['c'])
  await changing.commit()
  await poll(() => present.received.length >= 2 || old.state.attempts > 0)
  await holdsFor(500, () => present.received.length <= 2)
  assert.deepEqual(present.received.map(({ resource }) => resource).sort(), ['a', 'c'])
  assert.deepEqual([old.state.attempts, present.state.refused], [0, 0])
})

test('Retry-After is respected, a redirect is not followed, and 410 disables with an audit event', async (t) => {
  const admin = await plane.newAccount()
  const target = await startReceiver(t)
  let status = 503
  const receiver = await startReceiver(t, () => ({
    status,
    headers: { ...(status === 503 && { 'retry-after': '3600' }), location: target.url() },
  }))
  const destination = await newDestination(admin, receiver, { operations: ['x.*'] })
  await addEvents(admin, ['a'])
  const [delivery] = await poll(
    () => deliveriesOf(admin, destination.id),
    ([each]) => each?.attempts === 1,
  )
  assert.ok(Date.parse(delivery.next_attempt_at) > Date.now() + 3_000_000, delivery.next_attempt_at)
  assert.equal((await admin('GET', destination.uri)).body.status.code, 'delivery_failing')
  status = 302
  await addEvents(admin, ['b'])
  const [redirected] = await poll(
    () => deliveriesOf(admin, destination.id),
    ([each]) => each?.attempts > 0 && each.resource_id === 'b',
  )
  assert.deepEqual(
    [redirected.last_status, redirected.last_error],
    [302, 'the receiver redirects, which is not followed'],
  )
  assert.equal(target.state.attempts, 0)
  status = 410
  await addEvents(admin, ['c'])
  const disabled = await poll(
    async () => (await admin('GET', destination.uri)).body,
    ({ enabled }) => enabled === false,
  )
  assert.deepEqual([disabled.status.code, disabled.disabled_reason], ['receiver_gone', 'gone'])
  const { body } = await admin('GET', '/audit_events?operation=webhook_destinations.disable')
  assert.deepEqual([body.audit_events[0].resource_id, body.audit_events[0].after.enabled], [destination.id, false])
  status = 204
  const enabled = await admin('PATCH', destination.uri, { enabled: true })
  assert.deepEqual([enabled.body.disabled_reason, enabled.body.status.code], [null, 'nothing_sent_yet'])
  await poll(() => receiver.received.length === 3)
})

test('a destination that fails for days is disabled, and what is past its retention is skipped and counted', async (t) => {
  const admin = await plane.newAccount()
  const receiver = await startReceiver(t)
  await receiver.kill()
  const destination = await newDestination(admin, receiver, { operations: ['x.*'] })
  await addEvents(admin, ['a'])
  await poll(async () => (await admin('GET', destination.uri)).body.failing_since)
  await plane.db.query({ text: `update webhook_progress set failing_since = now() - interval '6 days'` })
  const disabled = await poll(
    async () => (await admin('GET', destination.uri)).body,
    ({ enabled }) => enabled === false,
    { withinSeconds: 90 },
  )
  assert.equal(disabled.disabled_reason, 'failing')
  await addEvents(admin, ['b', 'c'])
  await plane.db.query({
    text: `update audit_events set created_at = now() - interval '40 days' where account_id = $1 and resource_id = 'b'`,
    values: [accountUuid(admin)],
  })
  await receiver.revive()
  await admin('PATCH', destination.uri, { enabled: true })
  await poll(() => receiver.received.some(({ resource }) => resource === 'c'))
  assert.equal((await admin('GET', destination.uri)).body.skipped_events, 1)
  assert.ok(!receiver.received.some(({ resource }) => resource === 'b'))
})

test('a hundred destinations that never answer do not delay another account', async (t) => {
  const [hostile, honest] = [await plane.newAccount(), await plane.newAccount()]
  const sockets = new Set<Socket>()
  const hanging = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
  }).listen(0, '127.0.0.1')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    hanging.close()
  })
  await new Promise((resolve) => hanging.once('listening', resolve))
  const { port } = hanging.address() as { port: number }
  for (let count = 0; count < 100; count++) {
    const { status } = await hostile('POST', '/webhook_destinations', { url: `http://127.0.0.1:${port}/${count}` })
    assert.equal(status, 201)
  }
  const over = await hostile('POST', '/webhook_destinations', { url: `http://127.0.0.1:${port}/more` })
  assert.equal(over.body.error_code, 'ERR_QUOTA')
  const served = async () => {
    const { rows } = await plane.db.query({
      text: 'select count(*)::int as count from webhook_progress where account_id = $1 and leased_by is not null',
      values: [accountUuid(hostile)],
    })
    return rows[0].count
  }
  // Four in each of two processes: the other slots are for others, however many wait.
  await poll(served, (count) => count >= 8)
  await holdsFor(2_000, async () => (await served()) <= 8)
  const receiver = await startReceiver(t)
  await newDestination(honest, receiver, { operations: ['x.*'] })
  await addEvents(honest, ['a'])
  const began = Date.now()
  await poll(() => receiver.received.length === 1)
  t.diagnostic(`the other account's event arrived after ${Date.now() - began} ms`)
  assert.ok(Date.now() - began < 9_000, 'before any of the hanging ones has timed out')
  for (const { id } of (await hostile('GET', '/webhook_destinations')).body.webhook_destinations)
    await hostile('DELETE', `/webhook_destinations/${id}`)
})

test('tenants cannot reach the internal network', async () => {
  const admin = await plane.newAccount()
  const refused: Record<string, RegExp> = {
    'http://example.com/x': /must begin with https/,
    'ftp://example.com/x': /must be a URL that begins with https/,
    'https://user:pass@example.com/': /user name or password/,
    'https://example.com/#x': /fragment/,
    'https://127.0.0.2/': /loopback/,
    'https://2130706434/': /loopback/,
    'https://0x7f000002/': /loopback/,
    'https://[::1]/': /address of this server/,
    'https://[::ffff:10.0.0.1]/': /private/,
    'https://169.254.169.254/latest': /link-local/,
    'https://10.1.2.3/': /private/,
    'https://192.168.0.1/': /private/,
    'https://100.64.0.1/': /private/,
    'https://[fd00::1]/': /private/,
    'https://[64:ff9b::10.0.0.1]/': /private/,
    'https://0.0.0.0/': /unspecified/,
  }
  for (const [url, told] of Object.entries(refused)) {
    const { status, text } = await admin('POST', '/webhook_destinations', { url })
    assert.equal(status, 400, `${url}: ${text}`)
    assert.match(text, told)
  }
  // A name is looked at when it is dialed: this one leads to where URLs with addresses are refused.
  const created = await admin('POST', '/webhook_destinations', { url: 'https://sub.localhost:1/', operations: ['x.*'] })
  await plane.db.query({
    text: `update webhook_destinations set url = 'https://10.0.0.1/' where id = $1`,
    values: [toUuid(created.body.id)],
  })
  await addEvents(admin, ['a'])
  const [delivery] = await poll(
    () => deliveriesOf(admin, created.body.id),
    ([each]) => each?.attempts > 0,
  )
  assert.match(delivery.last_error, /private network/)
})
