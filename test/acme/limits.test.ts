// One account with many orders: the others wait for none of them, and the authority's limits are left for all.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { countOrders, endLease, type LeasedOrder, leaseOrder } from '../../src/acme/order_leases.ts'
import { type AcmeParts, type Outcome, workOnOrder } from '../../src/acme/worker.ts'
import { one, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import type { Account } from '../harness/control_plane.ts'
import { startOrdersByHand } from './by_hand.ts'

const { pebble, plane, time, parts, managed, statusOf } = await startOrdersByHand({ after })
const { db } = plane
const uuidOf = ({ accountId }: Account) => toUuid(accountId as Id<'ac'>)
const limitedTo = (ordersPerHour: number): AcmeParts => ({ ...parts, settings: { ...parts.settings, ordersPerHour } })
const forgetOrders = () => run(db, sql`delete from acme_orders`)

/** Until nothing is due. */
async function workOnAll(by: AcmeParts): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (let outcome = await workOnOrder(by); outcome; outcome = await workOnOrder(by)) outcomes.push(outcome)
  return outcomes
}

/** Due since an hour, without anything behind them. */
const fiveHundredDue = (account: Account) =>
  run(
    db,
    sql`
    with domains as (
      insert into reserved_domains (account_id, id, domain, challenge, status, certificate_authority, private_key_type)
      select ${uuidOf(account)}, gen_random_uuid(), 'd' || n || '-' || ${uuidOf(account)}::text || '.test', repeat('x', 40), 'pending',
        'acme', 'ecdsa'
      from generate_series(1, 500) n returning account_id, id)
    insert into acme_orders (account_id, domain_id, next_attempt_at)
    select account_id, id, now() - interval '1 hour' from domains`,
  )

test('accounts take turns, however many orders each has due', async () => {
  const [mallory, trudy, alice] = [await plane.newAccount(), await plane.newAccount(), await plane.newAccount()]
  await fiveHundredDue(mallory)
  await fiveHundredDue(trudy)
  const lease = async () => (await leaseOrder(db, Date.now(), 60)) ?? assert.fail('nothing is due')
  const end = (leased: LeasedOrder) =>
    endLease(db, leased, {
      nextAttemptAt: Date.now() + 3_600_000,
      renewsAt: null,
      issuedBy: null,
      failures: 0,
      error: null,
      heldBackUntil: null,
    })
  // As many as one process works on at once.
  const busy = [await lease(), await lease(), await lease(), await lease()]
  const counts = Map.groupBy(busy, ({ account_id }) => account_id)
  assert.deepEqual(
    [mallory, trudy].map((each) => counts.get(uuidOf(each))?.length),
    [2, 2],
  )
  const { domain } = await managed(alice)
  for (const leased of busy.slice(0, 1)) await end(leased)
  assert.equal(
    (await lease()).domain,
    domain,
    'an account without a turn yet comes before those with a thousand older orders',
  )
  // Alice, too, waits for her second turn.
  await managed(alice)
  const turns: string[] = []
  for (const leased of busy.slice(1)) {
    await end(leased)
    turns.push((await lease()).account_id)
  }
  assert.deepEqual(new Set(turns), new Set([mallory, trudy, alice].map(uuidOf)))
  await forgetOrders()
})

test('an account that has used up its hourly orders waits, is shown why, and delays no other account', async () => {
  const [mallory, alice] = [await plane.newAccount(), await plane.newAccount()]
  const hers = []
  for (let n = 0; n < 5; n++) hers.push(await managed(mallory))
  const victim = await managed(alice)
  const startedAt = Date.now()
  const outcomes = await workOnAll(limitedTo(2))
  const place = outcomes.findIndex(({ domain, issued }) => domain === victim.domain && issued)
  assert.ok(place >= 0 && place <= 1, JSON.stringify(outcomes))
  assert.equal(outcomes.filter(({ issued }) => issued).length, 3)
  assert.deepEqual(
    outcomes.flatMap(({ unmet }) => unmet?.code ?? []),
    ['order_limit', 'order_limit', 'order_limit'],
  )
  assert.equal((await countOrders(db)).limited, 3)

  const jobs = []
  for (const domain of hers) jobs.push((await statusOf(mallory, domain)).provisioning_job)
  const waiting = jobs.filter((job) => job !== null)
  assert.equal(waiting.length, 3)
  for (const { error_code, msg } of waiting) {
    assert.equal(error_code, 'order_limit')
    assert.match(msg, /2 orders per hour.*GATEHOUSE_ACME_ORDERS_PER_HOUR/)
  }
  // Each waits for a place of its own: two in an hour, the third an hour later.
  const hours = waiting.map(({ retries_at }) => Math.floor((Date.parse(retries_at) - startedAt) / 3_600_000))
  assert.deepEqual(hours.toSorted(), [1, 1, 2])

  // To delete a domain and to begin again brings no other order.
  const issued = hers[jobs.indexOf(null)] ?? assert.fail('none was issued')
  await run(db, sql`delete from acme_orders where domain_id = ${toUuid(issued.id)}`)
  const again = await managed(mallory)
  assert.deepEqual(
    (await workOnAll(limitedTo(2))).map(({ domain, unmet }) => [domain, unmet?.code]),
    [[again.domain, 'order_limit']],
  )
  time.aheadMs = 3_700_000
  assert.equal((await workOnAll(limitedTo(2))).filter((each) => each.issued).length, 2)
  time.aheadMs = 2 * 3_700_000
  assert.equal((await workOnAll(limitedTo(2))).filter((each) => each.issued).length, 2)
  assert.equal((await countOrders(db)).limited, 0)
  time.aheadMs = 0
  await forgetOrders()
})

test('two workers at once do not exceed the limit together', async () => {
  const mallory = await plane.newAccount()
  await managed(mallory)
  await managed(mallory)
  const outcomes = await Promise.all([workOnOrder(limitedTo(1)), workOnOrder(limitedTo(1))])
  assert.deepEqual(outcomes.map((each) => each?.unmet?.code ?? each?.issued).toSorted(), ['order_limit', true])
  await forgetOrders()
})

test('an authority that does not answer costs the account no order', async () => {
  const alice = await plane.newAccount()
  const { domain } = await managed(alice)
  await pebble.stop()
  assert.equal((await workOnOrder(limitedTo(1)))?.error?.code, 'unreachable')
  await pebble.start()
  time.aheadMs = 3_000_000
  assert.deepEqual(await workOnOrder(limitedTo(1)), { domain, issued: true })
  const { count } = await one<{ count: number }>(
    db,
    sql`select count(*) from acme_order_slots where account_id = ${uuidOf(alice)}`,
  )
  assert.equal(count, 1)
  time.aheadMs = 0
})

test('an order is due in the millisecond in which it was planned', async () => {
  await forgetOrders()
  const { domain } = await managed(await plane.newAccount())
  const now = Date.now()
  const planned = new Date(now).toISOString().replace('Z', '900Z')
  await run(db, sql`update acme_orders set next_attempt_at = ${planned}::timestamptz`)
  assert.equal(await leaseOrder(db, now - 1, 60), undefined)
  assert.equal((await leaseOrder(db, now, 60))?.domain, domain)
  await forgetOrders()
})
