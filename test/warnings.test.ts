import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addCounts } from '../src/access/evidence/counts.ts'
import { deleteRefusalsBefore } from '../src/access/evidence/refusals.ts'
import { deleteCountsBefore, repairRollUps } from '../src/access/evidence/roll_ups.ts'
import { many } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { hourOf } from '../src/kernel/clock.ts'
import { toUuid } from '../src/kernel/ids.ts'
import type { Answer } from './harness/client.ts'
import { startControlPlane, stop } from './harness/control_plane.ts'
import { behindProxy, from, policyWith, restrict } from './harness/ip.ts'
import { pause, poll } from './harness/poll.ts'
import { newUser } from './harness/principals.ts'

const plane = await startControlPlane({ after }, { env: behindProxy })
const hourMs = 60 * 60 * 1_000
const dayMs = 24 * hourMs

type Warning = { source_ip: string; count: number; last_at: string; last_api_key_id: string }
const caller = (admin: Awaited<ReturnType<typeof plane.newAccount>>, ip: string) =>
  admin('GET', '/caller', undefined, from(ip))

test('500 warned requests are counted exactly, with far fewer than 500 writes, and SIGTERM loses none of them', async () => {
  const admin = await plane.newAccount()
  const { id, uri } = await restrict(admin, { ip_policy_ids: [await policyWith(admin, 'allow 127.0.0.1')] })
  // A separate process: PostgreSQL only finalizes a connection's write counts when it closes.
  const ending = await plane.startProcess()
  const through = { process: plane.processes.indexOf(ending) }
  const client = plane.clientFor(admin.token)
  const began = Date.now()
  for (let round = 0; round < 10; round++) {
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        client('GET', '/caller', undefined, { ...from(`192.0.2.${i % 5}`), ...through }),
      ),
    )
    for (const { headers } of answers) assert.equal(headers.get('service-warning'), `ip_restriction=${id}`)
  }
  await stop(ending.child)
  const { body } = await admin('GET', `${uri}/warnings`)
  assert.equal(body.warnings.length, 5)
  for (const { count, last_api_key_id } of body.warnings as Warning[]) {
    assert.equal(count, 100)
    assert.match(last_api_key_id, /^ak_/)
  }
  const [{ writes } = { writes: -1 }] = await many<{ writes: number }>(
    plane.db,
    sql`select (n_tup_ins + n_tup_upd)::int as writes from pg_stat_user_tables where relname = 'ip_restriction_counts'`,
  )
  console.log(`500 warned requests took ${writes} row writes`)
  // Five addresses, written once a second, however slow the machine is.
  const seconds = Math.ceil((Date.now() - began) / 1_000)
  assert.ok(writes >= 5 && writes <= 5 * (seconds + 2), `${writes} row writes in ${seconds} s`)
})

test('counts are kept per restriction, address and hour', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8', 'allow 127.0.0.1')
  const one = await restrict(admin, { ip_policy_ids: [policy] })
  const other = await restrict(admin, { ip_policy_ids: [policy] })
  for (const ip of ['192.0.2.1', '192.0.2.2', '192.0.2.1', '2001:db8::1', '10.0.0.1']) await caller(admin, ip)
  for (const { id, uri } of [one, other]) {
    const { body } = await poll(
      () => admin('GET', `${uri}/warnings`),
      ({ body }) => body.warnings.length === 3,
    )
    const counts = body.warnings.map(({ source_ip, count }: Warning) => `${source_ip} ${count}`).sort()
    assert.deepEqual(counts, ['192.0.2.1 2', '192.0.2.2 1', '2001:db8::1 1'])
    const rows = await many<{ hour: string; outcome: string }>(
      plane.db,
      sql`select hour, outcome from ip_restriction_counts where ip_restriction_id = ${toUuid(id)}`,
    )
    assert.equal(rows.length, 3)
    for (const { hour, outcome } of rows) assert.match(`${outcome} ${hour}`, /^warned .*:00:00\.000Z$/)
  }
})

test('warnings come in pages, the latest address first, each once', async () => {
  const admin = await plane.newAccount()
  const { id, uri } = await restrict(admin, { ip_policy_ids: [await policyWith(admin, 'allow 127.0.0.1')] })
  const addresses = Array.from({ length: 7 }, (_, i) => (i % 2 ? `192.0.2.${i}` : `2001:db8::${i + 1}`))
  for (const ip of addresses) {
    await caller(admin, ip)
    await pause(2)
  }
  const { body: all } = await poll(
    () => admin('GET', `${uri}/warnings`),
    ({ body }) => body.warnings.length === 7,
  )
  assert.deepEqual(
    all.warnings.map(({ source_ip }: Warning) => source_ip),
    addresses.toReversed(),
  )
  // The same moment for some of them, so that the address has to break the tie.
  await many(
    plane.db,
    sql`update ip_restriction_addresses set last_at = date_trunc('second', last_at) where ip_restriction_id = ${toUuid(id)}`,
  )
  const seen: string[] = []
  let next: string | null = `${uri}/warnings?limit=2`
  while (next) {
    const { body }: Answer = await admin('GET', next)
    assert.ok(body.warnings.length)
    seen.push(...body.warnings.map(({ source_ip }: Warning) => source_ip))
    next = body.next_page_uri
  }
  assert.deepEqual(seen.toSorted(), addresses.toSorted())
})

test('a place in the warnings that no page gave is refused', async () => {
  const admin = await plane.newAccount()
  const { uri } = await restrict(admin, { ip_policy_ids: [await policyWith(admin)] })
  const moment = '2026-01-01T00:00:00.000Z'
  for (const before of [
    '',
    'x',
    moment,
    `${moment}~`,
    `${moment}~1.2.3`,
    `${moment}~::1~`,
    '2026-99-01T00:00:00.000Z~::1',
  ]) {
    const { status, body } = await admin('GET', `${uri}/warnings?before=${before}`)
    assert.equal(`${status} ${body.details.field}`, '400 before', before)
  }
})

test('upkeep deletes addresses older than the configured days and keeps younger ones', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 127.0.0.1')
  const trial = await restrict(admin, { ip_policy_ids: [policy] })
  await restrict(admin, { enforced: true, ip_policy_ids: [policy] })
  for (const ip of ['192.0.2.1', '192.0.2.2']) assert.equal((await caller(admin, ip)).status, 403)
  const lists = async () => {
    const [warnings, refusals] = [await admin('GET', `${trial.uri}/warnings`), await admin('GET', '/ip_refusals')]
    const ips = (items: { source_ip: string }[]) => items.map(({ source_ip }) => source_ip).sort()
    return [ips(warnings.body.warnings), ips(refusals.body.ip_refusals)]
  }
  await poll(lists, ([warnings, refusals]) => warnings?.length === 2 && refusals?.length === 2)

  const aged = new Date(Date.now() - 31 * dayMs).toISOString()
  await many(
    plane.db,
    sql`update ip_restriction_counts set hour = date_trunc('hour', ${aged}::timestamptz), last_at = ${aged} where source_ip = '192.0.2.1'`,
  )
  await repairRollUps(plane.db)
  await many(plane.db, sql`update ip_refusals set created_at = ${aged} where source_ip = '192.0.2.1'`)
  // A process does its upkeep when it starts, and every hour.
  await plane.startProcess({ GATEHOUSE_ADDRESS_RETENTION_DAYS: '32' })
  assert.deepEqual(await lists(), [
    ['192.0.2.1', '192.0.2.2'],
    ['192.0.2.1', '192.0.2.2'],
  ])
  await plane.startProcess({ GATEHOUSE_ADDRESS_RETENTION_DAYS: '30' })
  const left = await poll(lists, ([warnings, refusals]) => warnings?.length === 1 && refusals?.length === 1)
  assert.deepEqual(left, [['192.0.2.2'], ['192.0.2.2']])

  await deleteCountsBefore(plane.db, Date.now() + hourMs)
  await deleteRefusalsBefore(plane.db, Date.now() + hourMs)
  assert.deepEqual(await lists(), [[], []])
})

test('an admin resolves the operation id of a refusal to the rule that decided; a member may not', async () => {
  const admin = await plane.newAccount()
  const member = await newUser(plane, admin)
  const policy = await policyWith(admin, 'allow 0.0.0.0/0', 'deny 192.0.2.0/24')
  const restriction = await restrict(admin, { enforced: true, ip_policy_ids: [policy] })
  const refused = await admin('DELETE', restriction.uri, undefined, from('192.0.2.7'))
  const { operation_id } = refused.body.details
  const { status, body } = await poll(
    () => admin('GET', `/ip_refusals/${operation_id}`),
    (answer) => answer.status === 200,
  )
  assert.equal(status, 200)
  assert.equal(body.id, operation_id)
  assert.equal(body.operation, 'ip_restrictions.delete')
  assert.equal(body.source_ip, '192.0.2.7')
  assert.equal(body.ip_restriction.id, restriction.id)
  assert.equal(body.ip_policy.id, policy)
  assert.equal((await admin('GET', body.ip_policy_rule.uri)).body.cidr, '192.0.2.0/24')
  for (const path of ['/ip_refusals', `/ip_refusals/${operation_id}`, `${restriction.uri}/warnings`])
    assert.equal((await member('GET', path)).body.error_code, 'ERR_FORBIDDEN', path)
  const stranger = await plane.newAccount()
  assert.equal((await stranger('GET', `/ip_refusals/${operation_id}`)).status, 404)
  assert.deepEqual((await stranger('GET', '/ip_refusals')).body.ip_refusals, [])
})

test('a refusal and a warning are in the log with what decided, and in the metrics', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 127.0.0.1')
  const trial = await restrict(admin, { ip_policy_ids: [policy] })
  const [{ origin, log } = assert.fail()] = plane.processes
  const hits = async () => {
    const text = await (await fetch(`${origin}/metrics`)).text()
    const count = (outcome: string) =>
      Number(
        new RegExp(`^gatehouse_ip_restriction_hits_total\\{outcome="${outcome}"\\} (\\d+)$`, 'm').exec(text)?.[1] ?? 0,
      )
    return { refused: count('refused'), warned: count('warned') }
  }
  const before = await hits()
  const warned = await caller(admin, '192.0.2.1')
  const inForce = await restrict(admin, { enforced: true, ip_policy_ids: [policy] })
  const refused = await caller(admin, '192.0.2.1')
  const now = await hits()
  assert.deepEqual([now.refused - before.refused, now.warned - before.warned], [1, 2])
  const lineOf = ({ headers }: Answer) =>
    poll(
      async () => log.find(({ operation_id }) => operation_id === headers.get('operation-id')),
      (line) => line !== undefined,
    )
  const [first, second] = [await lineOf(warned), await lineOf(refused)]
  assert.deepEqual([first?.refused_by, first?.warned_by, first?.source_ip], [undefined, [trial.id], '192.0.2.1'])
  assert.deepEqual([second?.refused_by, second?.status], [inForce.id, 403])
})

test('a restriction can be deleted while counts of it are being written, and neither fails', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin)
  const accountId = toUuid(admin.accountId as `ac_${string}`)
  const hour = hourOf(Date.now())
  for (let round = 0; round < 10; round++) {
    const { id, uri } = await restrict(admin, { ip_policy_ids: [policy] })
    const counts = Array.from({ length: 1_000 }, (_, i) => ({
      accountId,
      restrictionId: toUuid(id),
      sourceIp: `10.0.${i >> 8}.${i & 255}`,
      outcome: 'warned' as const,
      hour,
      count: 1,
      lastAt: hour,
      lastApiKeyId: null,
    }))
    // Some rows to be added to, some new ones: the first are held while the others wait for the restriction.
    await addCounts(plane.db, counts.slice(0, 500))
    const [deleted] = await Promise.all([pause(round).then(() => admin('DELETE', uri)), addCounts(plane.db, counts)])
    assert.equal(deleted.status, 204, deleted.text)
  }
})
