import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { forgetAddressesOfUses } from '../src/access/evidence/key_uses.ts'
import { addSeenAddresses, deleteSeenAddressesBefore } from '../src/access/evidence/seen_addresses.ts'
import { many } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { hourOf } from '../src/kernel/clock.ts'
import { toUuid } from '../src/kernel/ids.ts'
import { type Account, startControlPlane, stop } from './harness/control_plane.ts'
import { assertRefused, etagOf, ifMatch, make } from './harness/fixtures.ts'
import { behindProxy, from } from './harness/ip.ts'
import { holdsFor, poll } from './harness/poll.ts'
import { signIn } from './harness/session.ts'

const plane = await startControlPlane({ after }, { processes: 2, env: behindProxy })
const hourMs = 60 * 60 * 1_000
const inMs = (ms: number) => new Date(Date.now() + ms).toISOString()
const accountUuid = ({ accountId }: Account) => toUuid(accountId as `ac_${string}`)

/** Uses a token through every process, and resolves to the statuses. */
const everywhere = (token: string): Promise<number[]> =>
  Promise.all(
    plane.processes.map(
      async (_, process) => (await plane.clientFor(token)('GET', '/caller', undefined, { process })).status,
    ),
  )
const live = [200, 200]
const dead = [401, 401]

test('a key works until expires_at and not a moment longer, on every process', async () => {
  const admin = await plane.newAccount()
  const seen = { before: 0, after: 0 }
  const use = async (token: string, end: number, process: number) => {
    const client = plane.clientFor(token)
    for (let after = 0; after < 10; after += Number(Date.now() > end)) {
      const asked = Date.now()
      const { status } = await client('GET', '/caller', undefined, { process })
      const answered = Date.now()
      // What is asked before and answered after the moment may be either.
      if (answered < end) {
        assert.equal(status, 200, `${end - answered} ms before its end`)
        seen.before++
      } else if (asked > end) {
        assert.equal(status, 401, `${asked - end} ms after its end`)
        seen.after++
      }
    }
  }
  // A busy machine may need longer to get a few requests in before the end.
  for (let lifeMs = 1_500; seen.before <= 5; lifeMs *= 2) {
    const expires_at = inMs(lifeMs)
    const { status, body: key, text } = await admin('POST', '/api_keys', { expires_at })
    if (status === 400 && Date.now() > Date.parse(expires_at)) continue
    assert.equal(status, 201, text)
    assert.equal(key.expires_at, expires_at)
    await Promise.all([0, 1].map((process) => use(key.token, Date.parse(expires_at), process)))
  }
  assert.ok(seen.after > 5, JSON.stringify(seen))
  console.log(`${seen.before} requests before the end were answered, ${seen.after} after it refused`)
})

test('expires_at can be moved, cleared and set to now; a key that has already expired is not created', async () => {
  const admin = await plane.newAccount()
  assertRefused(await admin('POST', '/api_keys', { expires_at: inMs(-1_000) }), 400, 'ERR_INVALID_FIELD', 'expires_at')
  assertRefused(await admin('POST', '/api_keys', { expires_at: 'tomorrow' }), 400, 'ERR_INVALID_FIELD', 'expires_at')
  const key = await make(admin, '/api_keys', { expires_at: '2040-01-02T03:04:05+02:00' })
  assert.equal(key.expires_at, '2040-01-02T01:04:05.000Z')
  for (const [expires_at, expected] of [
    [inMs(-1), dead],
    [null, live],
    [inMs(60_000), live],
    ['2001-01-01T00:00:00Z', dead],
  ] as const) {
    const { status, body } = await admin('PATCH', key.uri, { expires_at })
    assert.equal(status, 200)
    assert.equal(body.expires_at, expires_at && new Date(expires_at).toISOString())
    assert.deepEqual(await everywhere(key.token), expected)
  }
  const patched = await admin('PATCH', key.uri, { description: 'the end stays' })
  assert.equal(patched.body.expires_at, '2001-01-01T00:00:00.000Z')
})

test('the log says that a key has expired; its user gets the same 401 as for any wrong token', async () => {
  const admin = await plane.newAccount()
  const key = await make(admin, '/api_keys')
  await admin('PATCH', key.uri, { expires_at: inMs(-1) })
  const expired = await plane.clientFor(key.token)('GET', '/caller')
  const unknown = await plane.clientFor('no_such_token')('GET', '/caller')
  const words = ({ body: { details: _, ...rest } }: typeof expired) => rest
  assert.deepEqual(words(expired), words(unknown))
  const line = await poll(
    async () => plane.processes[0]?.log.find(({ operation_id }) => operation_id === expired.body.details.operation_id),
    (found) => found !== undefined,
  )
  assert.equal(line?.expired_api_key_id, key.id)
  const metrics = await (await fetch(`${plane.processes[0]?.origin}/metrics`)).text()
  assert.match(metrics, /^gatehouse_expired_keys_refused_total [1-9]/m)
})

test('a key shows the hour and address of its last use, without changing its ETag', async () => {
  const admin = await plane.newAccount()
  const key = await make(admin, '/api_keys')
  assert.deepEqual([key.last_used_at, key.last_used_ip], [null, null])
  const before = await admin('GET', key.uri)
  const begun = Date.now()
  await plane.clientFor(key.token)('GET', '/caller', undefined, from('2001:DB8::7'))
  const used = await poll(
    () => admin('GET', key.uri),
    ({ body }) => body.last_used_at !== null,
  )
  assert.equal(used.body.last_used_ip, '2001:db8::7')
  assert.ok([begun, Date.now()].some((at) => Date.parse(used.body.last_used_at) === hourOf(at)))
  assert.equal(etagOf(used), etagOf(before))
  assert.equal((await admin('PATCH', key.uri, { description: 'x' }, ifMatch(etagOf(before)))).status, 200)
  const { body } = await admin('GET', `/audit_events?resource_id=${key.id}`)
  assert.doesNotMatch(JSON.stringify(body.audit_events), /last_used|2001:db8::7/)
})

test('300 uses of a key from three addresses take a handful of writes, and SIGTERM loses none', async () => {
  const admin = await plane.newAccount()
  const key = await make(admin, '/api_keys')
  const ending = await plane.startProcess()
  const client = plane.clientFor(key.token)
  const through = { process: plane.processes.indexOf(ending) }
  const written = async () => {
    const rows = await many<{ writes: number }>(
      plane.db,
      sql`
      select sum(n_tup_ins + n_tup_upd)::int as writes from pg_stat_user_tables
      where relname in ('api_key_uses', 'seen_addresses')`,
    )
    return rows[0]?.writes ?? 0
  }
  const begun = Date.now()
  for (let round = 0; round < 10; round++)
    await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        client('GET', '/caller', undefined, { ...from(`192.0.2.${i % 3}`), ...through }),
      ),
    )
  await stop(ending.child)
  plane.processes.splice(through.process, 1)
  const seen = await many<{ ip: string }>(
    plane.db,
    sql`select host(ip) as ip from seen_addresses where account_id = ${accountUuid(admin)} and ip <<= '192.0.2.0/24' order by ip`,
  )
  assert.deepEqual(
    seen.map(({ ip }) => ip),
    ['192.0.2.0', '192.0.2.1', '192.0.2.2'],
  )
  assert.match((await admin('GET', key.uri)).body.last_used_ip, /^192\.0\.2\.[012]$/)
  const total = await written()
  const seconds = (Date.now() - begun) / 1_000
  console.log(`300 uses, and those of the tests before: ${total} row writes`)
  // Writes come at most once a second.
  assert.ok(total < 60 + 3 * seconds, `${total} row writes in ${seconds} s`)
})

test('constant use of a key is written once an hour', async () => {
  const admin = await plane.newAccount()
  const key = await make(admin, '/api_keys')
  const client = plane.clientFor(key.token)
  // xmin: the transaction that wrote the row as it is now.
  const versions = () =>
    many<{ xmin: string; hour: string }>(
      plane.db,
      sql`
      select xmin::text, last_used_at as hour from api_key_uses where api_key_id = ${toUuid(key.id)}
      union all
      select xmin::text, last_seen_at from seen_addresses where account_id = ${accountUuid(admin)}`,
    )
  const use = () => client('GET', '/caller')
  await use()
  const first = await poll(versions, ({ length }) => length === 2)
  await holdsFor(2_500, use)
  const last = await versions()
  if (last[0]?.hour === first[0]?.hour) assert.deepEqual(last, first)
})

test('after a rotation both tokens work, and the key shows from where the old one is still used', async () => {
  const admin = await plane.newAccount()
  const key = await make(admin, '/api_keys', { description: 'deploy' })
  await plane.clientFor(key.token)('GET', '/caller', undefined, from('192.0.2.1'))
  const rotated = await admin('POST', `${key.uri}/rotate`, {})
  assert.equal(rotated.status, 200)
  assert.notEqual(rotated.body.token, key.token)
  assert.match(rotated.body.token, /^gatehouse_/)
  assert.equal(rotated.body.description, 'deploy')
  const dayLater = Date.parse(rotated.body.rotated_at) + 24 * hourMs
  assert.equal(Date.parse(rotated.body.previous_token.expires_at), dayLater)
  assert.deepEqual(await everywhere(rotated.body.token), live)
  assert.equal((await admin('GET', key.uri)).body.previous_token.last_used_at, null, 'uses before do not count')
  assert.deepEqual(await everywhere(key.token), live)
  // Each process writes on its own, and the last to write is shown: the other may still have the uses above to write.
  let address = 0
  const { body: shown } = await poll(
    async () => {
      await plane.clientFor(key.token)('GET', '/caller', undefined, from(`2001:db8::${++address}`))
      return admin('GET', key.uri)
    },
    ({ body }) => body.previous_token.last_used_ip?.startsWith('2001:db8::'),
  )
  assert.equal(shown.token, null)
  const listed = async () => (await admin('GET', '/api_keys')).body.keys.find(({ id }: { id: string }) => id === key.id)
  // The other process may still write a use between the two reads.
  await poll(async () => isDeepStrictEqual(await listed(), (await admin('GET', key.uri)).body))
})

test('an overlap of 0 ends the old token immediately, an overlap of 1 second after a second', async () => {
  const admin = await plane.newAccount()
  for (const overlap_seconds of [0, 1]) {
    const key = await make(admin, '/api_keys')
    const { body: rotated } = await admin('POST', `${key.uri}/rotate`, { overlap_seconds })
    if (overlap_seconds === 0) assert.deepEqual(await everywhere(key.token), dead)
    await poll(
      () => everywhere(key.token),
      (now) => isDeepStrictEqual(now, dead),
    )
    assert.ok(Date.now() >= Date.parse(rotated.rotated_at) + 1_000 * overlap_seconds, 'it ended too early')
    assert.deepEqual(await everywhere(rotated.token), live)
    assert.equal((await admin('GET', key.uri)).body.previous_token, null)
  }
})

test('a second rotation within the overlap ends the oldest token: two live at most', async () => {
  const admin = await plane.newAccount()
  const key = await make(admin, '/api_keys')
  const { body: second } = await admin('POST', `${key.uri}/rotate`, {})
  const { body: third } = await admin('POST', `${key.uri}/rotate`, { overlap_seconds: 60 })
  assert.deepEqual(await everywhere(key.token), dead)
  assert.deepEqual(await everywhere(second.token), live)
  assert.deepEqual(await everywhere(third.token), live)
})

test('a rotation is refused for an overlap out of range, an expired key, and an outdated If-Match', async () => {
  const admin = await plane.newAccount()
  const key = await make(admin, '/api_keys')
  for (const overlap_seconds of [-1, 1.5, '60', 30 * 24 * 3_600 + 1, null])
    assertRefused(
      await admin('POST', `${key.uri}/rotate`, { overlap_seconds }),
      400,
      'ERR_INVALID_FIELD',
      'overlap_seconds',
    )
  const read = await admin('GET', key.uri)
  const first = await admin('POST', `${key.uri}/rotate`, {}, ifMatch(etagOf(read)))
  assert.equal(first.status, 200)
  assertRefused(await admin('POST', `${key.uri}/rotate`, {}, ifMatch(etagOf(read))), 412, 'ERR_PRECONDITION_FAILED')
  assert.equal(etagOf(first), etagOf(await admin('GET', key.uri)))
  await admin('PATCH', key.uri, { expires_at: inMs(-1) })
  assertRefused(await admin('POST', `${key.uri}/rotate`, {}), 409, 'ERR_API_KEY_EXPIRED')
  assert.deepEqual(await everywhere(first.body.token), dead)
})

test('a repeated rotation rotates once and does not show the token again', async () => {
  const admin = await plane.newAccount()
  const key = await make(admin, '/api_keys')
  const again = { headers: { 'idempotency-key': 'rotate-1' } }
  const first = await admin('POST', `${key.uri}/rotate`, { overlap_seconds: 60 }, again)
  const second = await admin('POST', `${key.uri}/rotate`, { overlap_seconds: 60 }, { ...again, process: 1 })
  assert.deepEqual(second.body, { ...first.body, token: null })
  assert.equal(second.headers.get('idempotency-replayed'), 'true')
  assert.equal(second.headers.get('service-warning'), 'token=told_once')
  assert.deepEqual(await everywhere(first.body.token), live)
  assert.deepEqual(await everywhere(key.token), live)
})

test('a rotation leaves an audit event that says how long the old token lives, and holds neither token', async () => {
  const admin = await plane.newAccount()
  const key = await make(admin, '/api_keys')
  const { body: rotated } = await admin('POST', `${key.uri}/rotate`, {})
  const { body } = await admin('GET', `/audit_events?resource_id=${key.id}&operation=api_keys.rotate`)
  const [event] = body.audit_events
  assert.equal(body.audit_events.length, 1)
  assert.equal(event.before.rotated_at, null)
  assert.equal(event.after.rotated_at, rotated.rotated_at)
  assert.equal(event.after.previous_token_expires_at, rotated.previous_token.expires_at)
  assert.doesNotMatch(JSON.stringify(event), /gatehouse_[0-9A-Za-z]{49}/)
})

test('the old token is never refused while the key is being rotated', async () => {
  const admin = await plane.newAccount()
  const key = await make(admin, '/api_keys')
  let newest = key.token
  let uses = 0
  for (let round = 0; round < 25; round++) {
    const old = plane.clientFor(newest)
    let rotating = true
    const using = [0, 1, 0, 1].map(async (process) => {
      while (rotating) {
        assert.equal((await old('GET', '/caller', undefined, { process })).status, 200)
        uses++
      }
    })
    const { body } = await admin('POST', `${key.uri}/rotate`, { overlap_seconds: 60 }, { process: round % 2 })
    assert.deepEqual(await everywhere(body.token), live)
    rotating = false
    await Promise.all(using)
    newest = body.token
  }
  assert.ok(uses > 50)
  console.log(`${uses} uses during 25 rotations, none refused`)
})

test('a deletion that races rotations and uses ends every token of the key, on every process', async () => {
  const admin = await plane.newAccount()
  for (let round = 0; round < 40; round++) {
    const key = await make(admin, '/api_keys')
    const tokens = [key.token]
    const rotate = async (process: number) => {
      const { status, body } = await admin('POST', `${key.uri}/rotate`, {}, { process })
      assert.ok(status === 200 || status === 404, `${status}`)
      if (status === 200) tokens.push(body.token)
    }
    const [, , , deleted] = await Promise.all([
      rotate(0),
      rotate(1),
      everywhere(key.token),
      admin('DELETE', key.uri, undefined, { process: round % 2 }),
    ])
    assert.equal(deleted.status, 204)
    for (const token of tokens) assert.deepEqual(await everywhere(token), dead)
  }
  const errors = () => plane.processes.flatMap(({ log }) => log.filter(({ level }) => level === 'error'))
  await holdsFor(1_200, () => errors().length === 0)
})

test('seen addresses are limited to the newest 10,000 per account and type, and to the retention', async () => {
  const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
  const accountId = accountUuid(admin)
  const hour = hourOf(Date.now())
  const addresses = (count: number, at: number, third: number) =>
    Array.from({ length: count }, (_, i) => ({
      accountId,
      type: 'api' as const,
      sourceIp: `10.${third}.${i >> 8}.${i & 255}`,
      hour: at,
    }))
  const kept = async () =>
    (
      await many<{ second: string; count: number }>(
        plane.db,
        sql`
        select split_part(host(ip), '.', 2) as second, count(*)::int as count from seen_addresses
        where account_id = ${accountId} and ip <<= '10.0.0.0/8' group by 1 order by 1`,
      )
    ).map(({ second, count }) => `${second}: ${count}`)
  await addSeenAddresses(plane.db, [
    { accountId: accountUuid(other), type: 'api', sourceIp: '10.9.9.9', hour: hour - 9 * 24 * hourMs },
  ])
  await addSeenAddresses(plane.db, addresses(6_000, hour - 2 * hourMs, 1))
  await addSeenAddresses(plane.db, addresses(6_000, hour + hourMs, 2))
  assert.deepEqual(await kept(), ['1: 4000', '2: 6000'])
  await deleteSeenAddressesBefore(plane.db, hour - hourMs)
  assert.deepEqual(await kept(), ['2: 6000'])
})

test('the address of the last use is deleted after its retention, and the time stays', async () => {
  const admin = await plane.newAccount()
  const key = await make(admin, '/api_keys')
  await plane.clientFor(key.token)('GET', '/caller')
  await poll(
    () => admin('GET', key.uri),
    ({ body }) => body.last_used_ip !== null,
  )
  await forgetAddressesOfUses(plane.db, Date.now() + hourMs)
  const { body } = await admin('GET', key.uri)
  assert.equal(body.last_used_ip, null)
  assert.notEqual(body.last_used_at, null)
})

test('a dashboard session ends when its key expires or the token that opened it ends', async () => {
  const admin = await plane.newAccount()
  for (const end of [
    (key: { uri: string }) => admin('PATCH', key.uri, { expires_at: inMs(-1) }),
    (key: { uri: string }) => admin('POST', `${key.uri}/rotate`, { overlap_seconds: 0 }),
  ]) {
    const key = await make(admin, '/api_keys')
    const browser = await signIn(plane.clientFor(key.token))
    const session = async (process: number) =>
      (await browser('GET', '/dashboard_session', undefined, { process })).status
    assert.deepEqual([await session(0), await session(1)], live)
    assert.equal((await end(key)).status, 200)
    assert.deepEqual([await session(0), await session(1)], dead)
  }
  const types = () =>
    many<{ type: string }>(
      plane.db,
      sql`select type from seen_addresses where account_id = ${accountUuid(admin)} order by type`,
    )
  const seen = await poll(types, ({ length }) => length === 2)
  assert.deepEqual(
    seen.map(({ type }) => type),
    ['api', 'dashboard'],
  )
})
