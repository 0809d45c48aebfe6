// Orders with the clock in the test's hands: attempts that get rarer, an authority that is away, leases that end.
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createAcmeClient } from '../../src/acme/client.ts'
import { certificateIdOf } from '../../src/acme/csr.ts'
import { AcmeProblem } from '../../src/acme/problems.ts'
import { backOffMs, pickedFrom, renewalOf } from '../../src/acme/schedule.ts'
import { type AcmeParts, workOnOrder } from '../../src/acme/worker.ts'
import { many, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { freshHost } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { startOrdersByHand } from './by_hand.ts'

const { pebble, plane, folder, hook, time, parts, ...byHand } = await startOrdersByHand({ after })
const alice = await plane.newAccount()
const managed = () => byHand.managed(alice)
const statusOf = (domain: { uri: string }) => byHand.statusOf(alice, domain)
const certificates = () => many(plane.db, sql`select id from tls_certificates`)

test('an authority that is down for an hour costs a few attempts, and the order succeeds soon after', async () => {
  const { domain, ...domainOf } = await managed()
  await pebble.stop()
  let attempts = 0
  for (time.aheadMs = 0; time.aheadMs < 60 * 60_000; time.aheadMs += 60_000) {
    const outcome = await workOnOrder(parts)
    if (!outcome) continue
    attempts++
    assert.equal(outcome.error?.code, 'unreachable')
  }
  assert.ok(attempts >= 4 && attempts <= 7, String(attempts))
  assert.equal((await statusOf(domainOf)).provisioning_job.error_code, 'unreachable')
  await pebble.start()
  const backAt = time.aheadMs
  let outcome = await workOnOrder(parts)
  for (; !outcome; time.aheadMs += 60_000) outcome = await workOnOrder(parts)
  assert.deepEqual(outcome, { domain, issued: true })
  assert.ok(time.aheadMs - backAt <= 20 * 60_000, String(time.aheadMs - backAt))
  assert.equal((await statusOf(domainOf)).provisioning_job, null)
  time.aheadMs = 0
})

test('a certificate is renewed when its time has come, and not before', async () => {
  const { domain, id, uri } = await managed()
  assert.deepEqual(await workOnOrder(parts), { domain, issued: true })
  const renewsAt = Date.parse((await statusOf({ uri })).renews_at)
  const makeDue = () =>
    run(plane.db, sql`update acme_orders set next_attempt_at = now() where domain_id = ${toUuid(id)}`)
  await makeDue()
  assert.deepEqual(await workOnOrder(parts), { domain, issued: false })
  time.aheadMs = renewsAt - Date.now() - 60_000
  await run(plane.db, sql`delete from acme_orders where domain_id <> ${toUuid(id)}`)
  assert.deepEqual(await workOnOrder(parts), { domain, issued: false }, 'only looked at')
  time.aheadMs = renewsAt - Date.now() + 60_000
  // The authority's own clock has not moved: what it issues is already in use for two thirds by ours, and valid.
  assert.deepEqual(await workOnOrder(parts), { domain, issued: true })
  time.aheadMs = 0
})

test('a certificate that the authority does not know is replaced all the same', async () => {
  const { directoryUrl, ca } = parts.settings
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const client = createAcmeClient({ directoryUrl, ca, accountKey: privateKey, clock: Date.now, signal: parts.signal })
  await client.register('', true)
  const [stored] = await many<{ certificate_pem: string }>(plane.db, sql`select certificate_pem from tls_certificates`)
  const [keyId] = (certificateIdOf(stored?.certificate_pem ?? '') ?? '').split('.')
  const unknown = `${keyId}.${Buffer.from('0123456789abcdef', 'hex').toString('base64url')}`
  assert.match((await client.newOrder([freshHost()], unknown)).url, /^https:/)
})

test('three workers at once order one certificate', async () => {
  const before = (await certificates()).length
  const { domain } = await managed()
  const outcomes = await Promise.all([workOnOrder(parts), workOnOrder(parts), workOnOrder(parts)])
  assert.deepEqual(
    outcomes.filter((each) => each?.issued),
    [{ domain, issued: true }],
  )
  assert.equal((await certificates()).length, before + 1)
})

test('a worker that lost its lease stores nothing, and another continues the same order', async () => {
  const { domain, id } = await managed()
  const before = (await certificates()).length
  const stalled: AcmeParts = { ...parts, settings: { ...parts.settings, dnsHook: join(folder, 'slow') } }
  await writeFile(join(folder, 'slow'), `#!/bin/sh\nsleep 2\nexec ${hook} "$@"\n`)
  await chmod(join(folder, 'slow'), 0o700)
  const first = workOnOrder(stalled)
  const orderUrl = async () =>
    (
      await many<{ order_url: string | null }>(
        plane.db,
        sql`select order_url from acme_orders where domain_id = ${toUuid(id)}`,
      )
    )[0]?.order_url
  const url = await poll(orderUrl)
  // As if another process had found the lease ended and taken the order, and then gave it back.
  await run(
    plane.db,
    sql`update acme_orders set lease_token = gen_random_uuid(), lease_until = now() where domain_id = ${toUuid(id)}`,
  )
  assert.deepEqual(await first, { domain, issued: false })
  assert.equal((await certificates()).length, before)
  assert.equal(await orderUrl(), url)
  assert.deepEqual(await workOnOrder(parts), { domain, issued: true })
  assert.equal((await certificates()).length, before + 1)
})

test('pauses grow, have a limit, and are never shorter than the authority asks for', () => {
  const limited = new AcmeProblem('rateLimited', 'too many', { retryAfterMs: 7_200_000 })
  const pause = (error: unknown, failures: number, random = 0.5) => backOffMs(error, failures, () => random)
  assert.equal(pause(limited, 0), 7_200_000)
  assert.ok(pause(new AcmeProblem('rateLimited', 'too many'), 0) >= 3_600_000)
  const refused = new AcmeProblem('connection', 'refused')
  assert.deepEqual(
    [0, 1, 2, 3, 4, 50].map((failures) => pause(refused, failures) / 60_000),
    [5, 15, 45, 135, 360, 360],
  )
  assert.notEqual(pause(refused, 1, 0), pause(refused, 1, 1))
  assert.ok(pause(new AcmeProblem('unreachable', 'away'), 50, 1) <= 19 * 60_000)
})

test('the moment of renewal: two thirds, or once within the window that the authority suggests', () => {
  assert.equal(renewalOf(0, 90), 60)
  const window = { from: 100, to: 200 }
  assert.equal(
    pickedFrom(window, null, () => 0.25),
    125,
  )
  assert.equal(
    pickedFrom(window, 150, () => 0.25),
    150,
  )
  assert.equal(
    pickedFrom(window, 250, () => 0.25),
    125,
  )
})
