// Sums of counts by hour and by address: reports always match the counts, with deletions and repairs in between.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addCounts, type Count, listWarnings, type Warning } from '../src/access/evidence/counts.ts'
import { addEdgeCounts, type EdgeCount } from '../src/access/evidence/edge_counts.ts'
import { type LastSeen, listLastSeen, listLastSeenAtModules } from '../src/access/evidence/last_seen.ts'
import { deleteCountsBefore, deleteEdgeCountsBefore, repairRollUps } from '../src/access/evidence/roll_ups.ts'
import { addSeenAddresses, type SeenAddress } from '../src/access/evidence/seen_addresses.ts'
import { loadOutline } from '../src/access/policies.ts'
import { type Db, run } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import type { Caller } from '../src/identity/caller.ts'
import { hourOf, rfc3339 } from '../src/kernel/clock.ts'
import { toId, toUuid, type Uuid } from '../src/kernel/ids.ts'
import { formatAddress } from '../src/kernel/ip/address.ts'
import { activityByEdge, activityByHour } from '../src/resources/ip_activity/store.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { newTcpEdge } from './harness/fixtures.ts'
import { policyWith, restrict } from './harness/ip.ts'
import { planOf } from './harness/plans.ts'
import { poll } from './harness/poll.ts'
import { randomBelow } from './harness/random.ts'
import { sized } from './harness/thorough.ts'
import { unrolled } from './harness/unrolled_counts.ts'

const plane = await startControlPlane({ after })
const { db } = plane
const hourMs = 60 * 60 * 1_000
const hours = 40
const start = Math.floor(Date.now() / hourMs) * hourMs - (hours - 1) * hourMs
const pick = <Value>(values: readonly Value[]): Value => values[randomBelow(values.length)] as Value

async function newWorld(types = ['api', 'api', 'endpoints', 'dashboard']) {
  const admin = await plane.newAccount()
  const accountId = toUuid(admin.accountId as `ac_${string}`)
  const policy = await policyWith(admin)
  const restrictions: Uuid[] = []
  for (const type of types) restrictions.push(toUuid((await restrict(admin, { type, ip_policy_ids: [policy] })).id))
  const edges: Uuid[] = []
  for (let count = 0; count < 3; count++) {
    const edge = await newTcpEdge(admin)
    if (count < 2) await admin('PUT', `${edge.uri}/ip_restriction`, { ip_policy_ids: [policy] })
    edges.push(toUuid(edge.id))
  }
  return {
    admin,
    accountId,
    caller: { accountId } as Caller,
    policyId: toUuid(policy as `ipp_${string}`),
    restrictions,
    edges,
  }
}
type World = Awaited<ReturnType<typeof newWorld>>

const someAddress = () => (randomBelow(3) ? `192.0.2.${randomBelow(60)}` : `2001:db8::${randomBelow(30).toString(16)}`)
/** Nothing is counted in hours that are past their retention. */
let oldest = start
function somewhen() {
  const lastAt = oldest + randomBelow(start + hours * hourMs - oldest)
  return { hour: hourOf(lastAt), lastAt, sourceIp: someAddress(), count: 1 + randomBelow(5) }
}
/** As a buffer would flush them: each key once. */
const once = <Value>(values: Value[], key: (value: Value) => string) => [
  ...new Map(values.map((value) => [key(value), value])).values(),
]
const someCounts = ({ restrictions }: World, number: number): Count[] =>
  once(
    Array.from({ length: number }, () => ({
      ...somewhen(),
      restrictionId: pick(restrictions),
      outcome: pick(['refused', 'warned'] as const),
      lastApiKeyId: pick(['ak_1', 'ak_2', null]),
    })),
    (c) => `${c.restrictionId} ${c.sourceIp} ${c.outcome} ${c.hour}`,
  )
const someEdgeCounts = ({ edges }: World, number: number): EdgeCount[] =>
  once(
    Array.from({ length: number }, () => ({
      ...somewhen(),
      edgeId: pick(edges),
      outcome: pick(['refused', 'warned'] as const),
      byModule: randomBelow(2) === 1,
    })),
    (c) => `${c.edgeId} ${c.sourceIp} ${c.outcome} ${c.byModule} ${c.hour}`,
  )

/** By the hour, so that many are equally late. */
const someSeen = ({ accountId }: World, number: number): SeenAddress[] =>
  once(
    Array.from({ length: number }, () => ({ ...somewhen(), accountId, type: pick(['api', 'endpoints'] as const) })),
    (s) => `${s.type} ${s.sourceIp}`,
  )

/** Both at one moment: calls of the API are counted in the background. */
async function assertSame(world: World, what: string): Promise<void> {
  const client = await plane.db.connect()
  try {
    await client.query('begin isolation level repeatable read')
    await compare({ query: ({ text, values }) => client.query(text, [...(values ?? [])]) }, world, what)
    await client.query('commit')
  } finally {
    client.release(true)
  }
}

const asRow = ({ address, at }: LastSeen) => ({ ip: formatAddress(address), last_seen_at: rfc3339(at) })

async function compare(db: Db, world: World, what: string): Promise<void> {
  const { accountId, caller, policyId, restrictions } = world
  const outline = await loadOutline(db, accountId)
  for (const since of [start - hourMs, start + 20 * hourMs, start + randomBelow(hours * hourMs)]) {
    const byHour = await activityByHour(db, caller, hourOf(since))
    const inOrder = byHour.toSorted((a, b) => (`${a.hour} ${a.type}` < `${b.hour} ${b.type}` ? -1 : 1))
    assert.deepEqual(inOrder, await unrolled.byHour(db, accountId, hourOf(since)), `${what}: by hour`)
    const byEdge = await activityByEdge(db, caller, hourOf(since), 100)
    assert.deepEqual(byEdge, await unrolled.byEdge(db, accountId, hourOf(since)), `${what}: by edge`)
    for (const limit of [5, 1_000]) {
      for (const type of ['api', 'endpoints'] as const)
        assert.deepEqual(
          (await listLastSeen(db, caller, type, outline.restrictions, since, limit)).map(asRow),
          await unrolled.lastSeen(db, accountId, type, since, limit),
          `${what}: last seen`,
        )
      assert.deepEqual(
        (await listLastSeenAtModules(db, caller, policyId, since, limit)).map((seen) => ({
          ...asRow(seen),
          edge_id: seen.edgeId,
        })),
        await unrolled.lastSeenAtModules(db, accountId, policyId, since, limit),
        `${what}: last seen at modules`,
      )
    }
  }
  for (const id of restrictions) {
    const all: Warning[] = []
    for (let page = await pageOf(db, caller, id); page.length; page = await pageOf(db, caller, id, page.at(-1)))
      all.push(...page)
    assert.deepEqual(all, await unrolled.warnings(db, id), `${what}: warnings`)
  }
}
const pageOf = (db: Db, caller: Caller, id: Uuid, before?: Warning) =>
  listWarnings(db, caller, toId('ipx', id), 17, before)

test('reports match the counts, while several processes count and delete at once', async () => {
  const world = await newWorld()
  for (let round = 0; round < sized(4, 60); round++) {
    await Promise.all([
      ...Array.from({ length: 3 }, () => addCounts(db, someCounts(world, 120))),
      addEdgeCounts(db, someEdgeCounts(world, 120)),
      addEdgeCounts(db, someEdgeCounts(world, 120)),
      addSeenAddresses(db, someSeen(world, 120)),
    ])
    if (round % 3 === 2) {
      const moment = oldest + randomBelow(hours * hourMs * 0.2)
      oldest = Math.ceil(moment / hourMs) * hourMs
      await Promise.all([
        deleteCountsBefore(db, moment),
        deleteCountsBefore(db, moment),
        deleteEdgeCountsBefore(db, moment),
        addCounts(db, someCounts(world, 120)),
        addEdgeCounts(db, someEdgeCounts(world, 120)),
      ])
    }
    await assertSame(world, `round ${round}`)
  }
  assert.equal(await repairRollUps(db), 0, 'nothing to repair')
  const [gone] = world.restrictions
  await world.admin('DELETE', `/ip_restrictions/${toId('ipx', gone as Uuid)}`)
  await assertSame(world, 'without a restriction')
  // Calls of the API are counted a moment later.
  await poll(async () => {
    await deleteCountsBefore(db, Date.now() + hourMs)
    await deleteEdgeCountsBefore(db, Date.now() + hourMs)
    const tables = ['ip_restriction_hours', 'ip_restriction_addresses', 'edge_hours', 'edge_addresses']
    const exists = tables.map((table) => `exists (select from ${table})`)
    const { rows } = await db.query({ text: `select ${exists.join(' or ')} as outlives` })
    return rows[0].outlives === false
  })
})

test('upkeep adds up what a version without sums counted, and doing so again changes nothing', async () => {
  const world = await newWorld()
  await addCounts(db, someCounts(world, 200))
  await addEdgeCounts(db, someEdgeCounts(world, 200))
  await run(
    db,
    sql`update ip_restriction_counts set count = count + 3 where account_id = ${world.accountId} and outcome = 'warned'`,
  )
  await run(db, sql`delete from edge_hours where account_id = ${world.accountId}`)
  assert.ok((await repairRollUps(db, start)) > 0)
  await assertSame(world, 'repaired')
  assert.equal(await repairRollUps(db), 0)
})

/** The plan of every statement that `work` sends: for its values, or for any that it may have. */
async function plansOf(work: (db: Db) => Promise<unknown>, isGeneric = false): Promise<string> {
  const plans: string[] = []
  await work({
    async query({ text, values = [] }) {
      plans.push(isGeneric ? await planOf(db, { text }, 'generic_plan') : await planOf(db, { text, values }))
      return { rows: [] }
    },
  })
  return plans.join('\n')
}
const answeringNone = (traced: Db): Db => ({
  query: async (statement) => ({ ...(await traced.query(statement)), rows: [{ ips: null }] }),
})

test('no report reads a table from end to end, or the counts themselves', async () => {
  const world = await newWorld()
  const { accountId, caller, policyId, restrictions, edges } = world
  await run(
    db,
    sql`
    insert into ip_restriction_counts (account_id, ip_restriction_id, hour, source_ip, outcome, count, last_at)
    select ${accountId}, (${restrictions}::uuid[])[1 + n % 4], h, '10.0.0.0'::inet + (extract(epoch from h)::bigint / 3600 % 800 * 60 + n), case n % 2 when 0 then 'warned' else 'refused' end,
      1, h + n * interval '1 second'
    from generate_series(date_trunc('hour', now()) - interval '29 days', date_trunc('hour', now()), interval '1 hour') h,
      generate_series(0, 59) n`,
  )
  await run(
    db,
    sql`
    insert into edge_counts (account_id, edge_id, hour, source_ip, outcome, by_module, count, last_at)
    select ${accountId}, (${edges}::uuid[])[1 + n % 3], h, '10.0.0.0'::inet + (extract(epoch from h)::bigint / 3600 % 800 * 60 + n), 'refused', n % 2 = 0, 1, h
    from generate_series(date_trunc('hour', now()) - interval '29 days', date_trunc('hour', now()), interval '1 hour') h,
      generate_series(0, 59) n`,
  )
  await repairRollUps(db)
  await db.query({ text: 'analyze' })
  const [restriction] = restrictions as [Uuid]
  const since = Date.now() - 24 * hourMs
  const outline = await loadOutline(db, accountId)
  const lastSeen = (traced: Db) =>
    listLastSeen(answeringNone(traced), caller, 'api', outline.restrictions, since, 10_000)
  const plans = {
    'by hour': await plansOf((traced) => activityByHour(traced, caller, since)),
    'by edge': await plansOf((traced) => activityByEdge(traced, caller, since, 100)),
    warnings: await plansOf((traced) => listWarnings(traced, caller, toId('ipx', restriction), 100)),
    'last seen': await plansOf(lastSeen),
    // What PostgreSQL may change to after a prepared statement was used five times.
    'last seen, by any values': await plansOf(lastSeen, true),
    'at modules': await plansOf((traced) =>
      listLastSeenAtModules(answeringNone(traced), caller, policyId, since, 10_000),
    ),
  }
  for (const [what, plan] of Object.entries(plans)) {
    assert.doesNotMatch(plan, /Seq Scan on (ip_restriction_|edge_)(hours|addresses|counts)/, `${what}\n${plan}`)
    assert.doesNotMatch(plan, /_counts\b/, `${what}\n${plan}`)
  }
  assert.match(plans.warnings, /ip_restriction_addresses_latest/)
  assert.doesNotMatch(plans.warnings, /Sort/)
  // Merged in the order of their indexes, so that what is not among the latest is not read at all.
  for (const plan of [plans['last seen'], plans['last seen, by any values']]) {
    assert.match(plan, /Merge Append/, plan)
    assert.equal(plan.match(/Index Only Scan Backward using ip_restriction_addresses_latest/g)?.length, 4, plan)
  }
  await assertSame(world, 'at size')
})

test('the latest addresses of many restrictions match the counts, whether they refuse the same addresses or others', async () => {
  const world = await newWorld(Array.from({ length: 20 }, () => 'endpoints'))
  for (let round = 0; round < sized(2, 10); round++) {
    const counts = someCounts(world, 60).map((count) => ({ ...count, outcome: 'refused' as const }))
    await addCounts(
      db,
      once(
        world.restrictions.flatMap((restrictionId) => counts.map((count) => ({ ...count, restrictionId }))),
        (c) => `${c.restrictionId} ${c.sourceIp} ${c.hour}`,
      ),
    )
    await addSeenAddresses(db, someSeen(world, 60))
    await assertSame(world, `round ${round}, the same`)
    await addCounts(db, someCounts(world, 300))
    await assertSame(world, `round ${round}, others`)
  }
})
