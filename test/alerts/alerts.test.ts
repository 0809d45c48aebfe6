// Alerts of accounts: what fires when, what is sent, and what neither a restart nor silence of nodes can make of it.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, type TestContext, test } from 'node:test'
import { noTarget } from '../../src/access/evidence/address_outcomes.ts'
import { one, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { transaction } from '../../src/db/transaction.ts'
import type { UpstreamHealth } from '../../src/distribution/channels.ts'
import { type Id, newUuid, toUuid } from '../../src/kernel/ids.ts'
import type { Account } from '../harness/control_plane.ts'
import { assertRefused, make } from '../harness/fixtures.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { quickCertificate } from '../harness/quick_certificates.ts'
import { startFleet } from '../harness/reporting_nodes.ts'
import { accountUuid, newDestination } from '../webhooks/destinations.ts'
import { webhookEnv } from '../webhooks/environment.ts'
import { startReceiver } from '../webhooks/receiver.ts'

const fleet = await startFleet(
  { after },
  { ...webhookEnv, GATEHOUSE_ALERT_INTERVAL_SECONDS: '1', GATEHOUSE_ALERT_RESOLVE_SECONDS: '6' },
)
const { db, report } = fleet

/** An account with a backend that is in use. */
async function accountWithBackend() {
  const admin = await fleet.newAccount()
  const backend = await make(admin, '/backends/static', {
    address: 'app.internal:80',
    health_check: { type: 'tcp' },
  })
  const edge = await make(admin, '/edges/https', { hostports: [`${newUuid()}.example:443`] })
  const backendModule = { backend: { backend_id: backend.id } }
  await make(admin, `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/', ...backendModule })
  const seen = (status: 'up' | 'down'): UpstreamHealth => ({
    ...{ backend: backend.id, address: '192.0.2.1', port: 80, status, since: '2026-01-15T12:00:00.000Z' },
    reason: status === 'up' ? null : 'connection refused',
  })
  return { admin, backend, edge, seen }
}
const bothSay = (health: UpstreamHealth[]) =>
  Promise.all((['edge-1', 'edge-2'] as const).map((node) => report(node, { health })))

const pathOf = ({ uri }: { uri: string }) => new URL(uri).pathname
const newRule = (admin: Account, fields: object) => make(admin, '/alert_rules', { for_seconds: 0, ...fields })
const alertsOf = async (admin: Account, query = '') => (await admin('GET', `/alerts${query}`)).body.alerts
const oneIn = async (admin: Account, state: string, rule?: { id: string }) => {
  const [found] = await poll(
    () => alertsOf(admin, `?state=${state}${rule ? `&rule_id=${rule.id}` : ''}`),
    ({ length }) => length > 0,
  )
  return found
}

/** An incoming webhook of a chat. */
async function startChat(t: TestContext) {
  const messages: string[] = []
  const server = createServer(async (request, response) => {
    messages.push(JSON.parse(await text(request)).text)
    response.end('ok')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return { messages, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/services/x` }
}

test('a backend that goes down fires, tells each destination once, stays while it is unknown, and is resolved', async (t) => {
  const { admin, backend, seen } = await accountWithBackend()
  const [receiver, chat] = [await startReceiver(t), await startChat(t)]
  await newDestination(admin, receiver, { operations: ['alerts.*'] })
  await make(admin, '/webhook_destinations', { url: chat.url, format: 'slack', operations: ['alerts.*'] })
  await bothSay([seen('up')])
  const rule = await newRule(admin, { kind: 'backend_down', description: 'app <down>' })
  await poll(
    async () => (await admin('GET', pathOf(rule))).body,
    ({ state }) => state === 'fine',
  )
  await bothSay([seen('down')])
  const fired = await oneIn(admin, 'firing')
  assert.deepEqual([fired.resource_id, fired.rule_id, fired.kind], [backend.id, rule.id, 'backend_down'])
  assert.match(fired.reason, /connection refused/)
  assert.ok(fired.notified_at && fired.fired_at >= fired.since)
  assert.equal((await admin('GET', pathOf(rule))).body.state, 'firing')
  await poll(() => receiver.received.length === 1 && chat.messages.length === 1)
  const [event] = receiver.received
  assert.equal(event?.type, 'alerts.fire')
  assert.equal((event?.data.after as { id: string } | undefined)?.id, fired.id)
  assert.match(chat.messages[0] ?? '', new RegExp(`^Firing: backend_down ${backend.id}\n.*connection refused`))
  // Where a person sees it, not where a program does.
  assert.match(chat.messages[0] ?? '', /\nhttps?:\/\/[^\n]+\/dashboard\/alerts$/)

  // Silent nodes are unknown: that resolves nothing, and is not fine.
  for (const node of ['edge-1', 'edge-2'] as const) await report(node, undefined)
  const unclear = await poll(
    () => oneIn(admin, 'firing'),
    ({ unclear_since }) => unclear_since !== null,
  )
  await holdsFor(5_000, async () => (await alertsOf(admin, '?state=firing'))[0]?.id === unclear.id)
  await bothSay([seen('up')])
  const resolved = await oneIn(admin, 'resolved')
  assert.deepEqual([resolved.id, resolved.unclear_since], [fired.id, null])
  await poll(() => receiver.received.length === 2 && chat.messages.length === 2)
  assert.equal(receiver.received[1]?.type, 'alerts.resolve')
  assert.match(chat.messages[1] ?? '', /^Resolved: backend_down/)
  await holdsFor(2_500, () => receiver.received.length === 2)
  assert.equal((await admin('GET', pathOf(rule))).body.state, 'fine')
})

test('a condition has to hold for a while, and one that comes and goes sends one message', async (t) => {
  const admin = await fleet.newAccount()
  const receiver = await startReceiver(t)
  await newDestination(admin, receiver, { operations: ['alerts.*'] })
  const watched = await make(admin, '/webhook_destinations', { url: 'https://example.com/x', operations: ['x.*'] })
  const fail = (isFailing: boolean) =>
    run(
      db,
      sql`
      update webhook_progress set failing_since = case when ${isFailing} then now() end
      where destination_id = ${toUuid(watched.id as Id)}`,
    )
  await fail(true)
  const rule = await newRule(admin, { kind: 'webhook_failing', resource_id: watched.id, for_seconds: 3_600 })
  const pending = await oneIn(admin, 'pending')
  assert.equal(pending.fired_at, null)
  assert.equal((await admin('PATCH', pathOf(rule), { for_seconds: 0 })).status, 200)
  await oneIn(admin, 'firing')
  for (const isFailing of [false, true, false, true, false, true]) {
    await fail(isFailing)
    await holdsFor(1_500, () => true)
  }
  assert.equal((await alertsOf(admin)).length, 1)
  assert.deepEqual(
    receiver.received.map(({ type }) => type),
    ['alerts.fire'],
  )
})

test('while a rule is silenced nothing is sent; what still fires then is', async (t) => {
  const { admin, seen } = await accountWithBackend()
  const receiver = await startReceiver(t)
  await newDestination(admin, receiver, { operations: ['alerts.*'] })
  await bothSay([seen('down')])
  const rule = await newRule(admin, {
    kind: 'backend_down',
    silenced_until: new Date(Date.now() + 3_600_000).toISOString(),
  })
  assert.equal((await oneIn(admin, 'firing')).notified_at, null)
  await holdsFor(2_500, () => receiver.received.length === 0)
  assert.equal((await admin('PATCH', pathOf(rule), { silenced_until: null })).status, 200)
  await poll(() => receiver.received.length === 1)
  assert.equal((await admin('DELETE', pathOf(rule))).status, 204)
  const { reason } = await oneIn(admin, 'resolved')
  assert.match(reason, /deleted/)
  await poll(() => receiver.received.length === 2)
})

test('a test of a rule reaches what alerts are sent to, of its own account', async (t) => {
  const [admin, other] = [await fleet.newAccount(), await fleet.newAccount()]
  const [receiver, unwanted, foreign] = [await startReceiver(t), await startReceiver(t), await startReceiver(t)]
  await newDestination(admin, receiver, { operations: ['alerts.fire'] })
  await newDestination(admin, unwanted, { operations: ['users.*'] })
  await newDestination(other, foreign, { operations: ['alerts.*'] })
  const rule = await newRule(admin, { kind: 'rollout_halted' })
  assert.equal((await admin('POST', `${pathOf(rule)}/test`, {})).status, 200)
  await poll(() => receiver.received.length === 1)
  assert.equal(receiver.received[0]?.type, 'alert_rules.test')
  assert.deepEqual([unwanted.received.length, foreign.received.length], [0, 0])
})

test('several processes, one of them killed in between, send each alert once', async (t) => {
  const { admin, seen } = await accountWithBackend()
  const receiver = await startReceiver(t)
  await newDestination(admin, receiver, { operations: ['alerts.*'] })
  const doomed = await fleet.startProcess({ GATEHOUSE_LISTEN: '127.0.0.1:0' })
  await bothSay([seen('down')])
  await newRule(admin, { kind: 'backend_down' })
  await poll(() => receiver.received.length === 1)
  // What a killed process had sent and not noted comes again, under its id.
  const told = () => [...new Map(receiver.received.map(({ id, type }) => [id, type])).values()]
  doomed.child.kill('SIGKILL')
  await fleet.startProcess({ GATEHOUSE_LISTEN: '127.0.0.1:0' })
  await holdsFor(4_000, () => told().length === 1)
  await bothSay([seen('up')])
  await poll(() => told().length > 1, Boolean, { withinSeconds: 120 })
  await holdsFor(2_000, () => true)
  assert.deepEqual(told(), ['alerts.fire', 'alerts.resolve'])
  assert.equal((await alertsOf(admin)).length, 1)
})

test('a rule is changed while its account is evaluated, and neither waits for the other', async () => {
  const { admin } = await accountWithBackend()
  const [first, second] = [
    await newRule(admin, { kind: 'backend_down' }),
    await newRule(admin, { kind: 'rollout_halted' }),
  ]
  const evaluatedAt = async ({ id }: { id: string }) => {
    const { evaluated_at } = await one<{ evaluated_at: string | null }>(
      db,
      sql`select evaluated_at from alert_rules where id = ${toUuid(id as Id<'alr'>)}`,
    )
    return evaluated_at === null ? 0 : Date.parse(evaluated_at)
  }
  await poll(() => evaluatedAt(first))
  await poll(() => evaluatedAt(second))
  await transaction(db, async (tx) => {
    await run(tx, sql`update alert_rules set evaluated_at = null where id = ${toUuid(first.id as Id<'alr'>)}`)
    const from = await evaluatedAt(second)
    await poll(
      () => evaluatedAt(second),
      (at) => at > from,
    )
    const accountId = accountUuid(admin)
    await run(
      tx,
      sql`
      insert into alert_turns (account_id) values (${accountId})
      on conflict (account_id) do update set due_at = least(alert_turns.due_at, excluded.due_at)`,
    )
  })
  await poll(() => evaluatedAt(first))
})

test('each other condition fires, about the right thing', async () => {
  const { admin, edge, seen } = await accountWithBackend()
  await bothSay([seen('up')])
  const account = accountUuid(admin)
  const expiring = await make(admin, '/tls_certificates', quickCertificate(['c.example'], 3))
  await make(admin, '/reserved_domains', { domain: 'c.example', certificate_id: expiring.id })
  const unused = await make(admin, '/tls_certificates', quickCertificate(['u.example'], 3))
  for (const { id } of [expiring, unused])
    await run(
      db,
      sql`update tls_certificates set not_before = now() - interval '60 days' where id = ${toUuid(id as Id)}`,
    )
  const failing = await make(admin, '/webhook_destinations', { url: 'https://example.com/x', operations: ['x.*'] })
  await run(
    db,
    sql`update webhook_progress set failing_since = now() where destination_id = ${toUuid(failing.id as Id)}`,
  )
  await run(
    db,
    sql`
    insert into traffic_minutes (account_id, at, node, edge_kind, edge_id, route_id, backend_kind, backend_id, requests,
      refused, limited, backend_5xx, unreachable, no_response, timeout, edge, client, latencies)
    values (${account}, date_trunc('minute', now()), 'edge-1', 'edghts', ${toUuid(edge.id as Id)}, ${noTarget}, 'bkdst',
      ${noTarget}, 100, 0, 0, 9, 1, 0, 0, 0, 5, '{}')`,
  )
  await run(
    db,
    sql`
    insert into address_outcomes (account_id, type, target_id, ip, allowed_at, refused_at)
    values (${account}, 'api', ${noTarget}, '192.0.2.9', now() - interval '1 day', now())`,
  )
  await run(
    db,
    sql`
    insert into rollouts (cell_id, account_id, state, reached, since, open_until, reason)
    select id, ${account}, 'halted', -1, 1, 1, 'edge-1 refused route.x' from cells limit 1`,
  )
  await report('edge-2', { health: [seen('up')], storageFault: 'ENOSPC' })
  const expected = {
    node_behind: ['edge-2', /cannot write to disk/],
    certificate_failing: [expiring.id, /expires at/],
    errors: [null, /^10\.0 % of 100 requests failed within 5 minutes\.$/],
    newly_refused: [null, /^1 address that was let in/],
    webhook_failing: [failing.id, /failed/],
    rollout_halted: ['default', /refused route\.x/],
  } as const
  for (const [kind, [about, reason]] of Object.entries(expected)) {
    const rule = await newRule(admin, { kind })
    const fired = await oneIn(admin, 'firing', rule)
    assert.deepEqual([kind, fired.resource_id], [kind, about])
    assert.match(fired.reason, reason)
    assert.equal((await alertsOf(admin, `?rule_id=${rule.id}`)).length, 1, kind)
  }
  const strict = await newRule(admin, { kind: 'errors', resource_id: edge.id, percent: 10.5 })
  const about = await newRule(admin, { kind: 'errors', resource_id: edge.id, percent: 9.5, window_minutes: 2 })
  assert.equal((await oneIn(admin, 'firing', about)).resource_id, edge.id)
  assert.equal((await alertsOf(admin, `?rule_id=${strict.id}`)).length, 0)
})

test('what does not fit a kind, or is not of the account, is refused', async () => {
  const [{ admin, backend }, { admin: other }] = [await accountWithBackend(), await accountWithBackend()]
  const create = (fields: object, as = admin) => as('POST', '/alert_rules', fields)
  assertRefused(await create({ kind: 'backend_down', percent: 5 }), 400, 'ERR_INVALID_FIELD', 'percent')
  assertRefused(await create({ kind: 'node_behind', resource_id: backend.id }), 400, 'ERR_INVALID_FIELD', 'resource_id')
  assertRefused(await create({ kind: 'errors', resource_id: backend.id }), 400, 'ERR_INVALID_FIELD', 'resource_id')
  assertRefused(
    await create({ kind: 'backend_down', resource_id: backend.id }, other),
    400,
    'ERR_INVALID_FIELD',
    'resource_id',
  )
  assertRefused(await create({ kind: 'backend_down', for_seconds: 86_401 }), 400, 'ERR_INVALID_FIELD', 'for_seconds')
})
