import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startNats } from '../../../dev/nats.ts'
import type { Client } from '../../../test/harness/client.ts'
import { startControlPlane } from '../../../test/harness/control_plane.ts'
import { connectNode, edgeRequest, keptRequest, uuidAt } from '../../../test/harness/edge_requests.ts'
import { newHttpsEdge, newRoute, newTcpEdge } from '../../../test/harness/fixtures.ts'
import { loadScaledTimeout } from '../../../test/harness/load_scaled_timeout.ts'
import { planOf } from '../../../test/harness/plans.ts'
import { type DbPool, one, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { defaultChannels } from '../../distribution/channels.ts'
import type { DroppedRequests } from '../../distribution/request_batch.ts'
import type { Static } from '../../http/wire.ts'
import type { Caller } from '../../identity/caller.ts'
import { hourOf, rfc3339 } from '../../kernel/clock.ts'
import { newId, newUuid, toUuid } from '../../kernel/ids.ts'
import { keepRequests } from './keep.ts'
import { addRequestPartitions, dropRequestPartitions } from './partitions.ts'
import type { RequestQuery } from './schema.ts'
import { countDroppedRequests, findRequest, listRequests } from './store.ts'

const dayMs = 24 * 60 * 60 * 1_000
const nats = await startNats()
after(() => nats.stop())
const plane = await startControlPlane(
  { after },
  { env: { ...nats.controlPlane, GATEHOUSE_REQUESTS_KEPT_PER_HOUR: '50' } },
)
const { nats: node, deliver } = await connectNode({ after }, nats.url)

const idsOf = async (as: Client, query = ''): Promise<string[]> => {
  const { body } = await as('GET', `/requests${query}`)
  return body.requests.map(({ id }: { id: string }) => id)
}

test('a batch that comes again, and a request that comes again in another batch, are kept and counted once', async () => {
  const admin = await plane.newAccount()
  const edge = await newHttpsEdge(admin)
  const [one, two] = [edgeRequest(admin, edge), edgeRequest(admin, edge)]
  const hour = rfc3339(Date.now())
  const again = { batch: newUuid(), dropped: [{ account: one.account as `ac_${string}`, hour, count: 5 }] }
  assert.deepEqual([await deliver([one, one], again), await deliver([one, one], again)], ['kept', 'kept'])
  await deliver([one, two])
  const { body } = await admin('GET', '/requests')
  assert.deepEqual([body.requests.length, body.dropped], [2, 5])
})

test('the requests of an account are kept up to its hourly quota, the rest are only counted, and others lose none', async () => {
  const [loud, quiet] = [await plane.newAccount(), await plane.newAccount()]
  const [edge, quietEdge] = [await newHttpsEdge(loud), await newHttpsEdge(quiet)]
  // Within one hour, whenever the test runs.
  const at = rfc3339(hourOf(Date.now()))
  const mine = edgeRequest(quiet, quietEdge)
  for (let i = 0; i < 3; i++)
    await deliver([...Array.from({ length: 40 }, () => edgeRequest(loud, edge, { at })), ...(i === 2 ? [mine] : [])])
  const { body } = await loud('GET', '/requests?limit=100')
  assert.deepEqual([body.requests.length, body.dropped], [50, 70])
  const hours = { before: rfc3339(Date.parse(at)), after: rfc3339(Date.parse(at) + 3_600_000) }
  assert.equal((await loud('GET', `/requests?until=${hours.before}`)).body.dropped, 0)
  assert.equal((await loud('GET', `/requests?since=${hours.after}`)).body.dropped, 0)
  assert.equal((await loud('GET', `/requests?since=${hours.before}`)).body.dropped, 70)
  assert.deepEqual(await idsOf(quiet), [mine.id])
})

test('a stolen node writes nothing into an account that does not have the edge or route, and nothing out of bounds', async () => {
  const [victim, other] = [await plane.newAccount(), await plane.newAccount()]
  const [edge, tcp, otherEdge] = [await newHttpsEdge(victim), await newTcpEdge(victim), await newHttpsEdge(other)]
  const [route, otherRoute] = [await newRoute(other, {}, otherEdge), await newRoute(victim)]
  const honest = edgeRequest(victim, edge)
  const answer = await deliver([
    edgeRequest(victim, otherEdge),
    edgeRequest(victim, edge, { route: route.id }),
    edgeRequest(victim, edge, { route: otherRoute.id }),
    edgeRequest(victim, { id: tcp.id.replace('edgtcp', 'edghts') }),
    edgeRequest(victim, { id: edge.id.replace('edghts', 'edgtcp') }),
    edgeRequest(victim, tcp, { route: otherRoute.id }),
    edgeRequest(victim, edge, { account: newId('ac') }),
    edgeRequest(victim, edge, { account: null }),
    edgeRequest(victim, edge, { node: 'edge-2' }),
    edgeRequest(victim, edge, { outcome: 'allowed', reason: null }),
    edgeRequest(victim, edge, { id: uuidAt(Date.now() - 8 * dayMs) }),
    edgeRequest(victim, edge, { id: uuidAt(Date.now() + 2 * 3_600_000) }),
    edgeRequest(victim, edge, { at: '2001-01-01T00:00:00.000Z' }),
    { ...edgeRequest(victim, edge), path: `/${'x'.repeat(1_024)}` },
    { ...edgeRequest(victim, edge), path: '/\u0000' },
    { ...edgeRequest(victim, edge), source: '10.0.0.1/8' },
    { ...edgeRequest(victim, edge), bytesIn: 1e300 },
    null,
    honest,
  ])
  assert.equal(answer, 'kept')
  assert.deepEqual(await idsOf(victim), [honest.id])
  assert.deepEqual(await idsOf(other), [])
  const dropped = (fields: object) => ({ account: victim.accountId, hour: rfc3339(Date.now()), count: 1, ...fields })
  await deliver([], {
    dropped: [
      dropped({ count: -1 }),
      dropped({ count: 1e15 }),
      dropped({ hour: '2001-01-01T00:00:00Z' }),
      dropped({ account: newId('ac') }),
      dropped({ count: 3 }),
    ] as DroppedRequests[],
  })
  assert.equal((await victim('GET', '/requests')).body.dropped, 3)
  for (const text of ['', 'x', '{}', JSON.stringify({ node: 'edge-2', batch: newUuid(), requests: [], dropped: [] })])
    assert.equal(
      (await node.request(defaultChannels.requests('edge-1'), text, { timeout: loadScaledTimeout(5_000) })).string(),
      'unreadable',
    )
})

test('a day past its retention is dropped as a whole, also what came before its partition', async () => {
  const insert = (moment: number) =>
    run(
      plane.db,
      sql`insert into edge_requests (account_id, id, created_at, node, edge_kind, edge_id, source_ip, protocol, duration_ms,
            bytes_in, bytes_out, outcome, generation)
          values (${newUuid()}, ${uuidAt(moment)}, ${rfc3339(moment)}, 'retained', 'tcp', ${newUuid()}, '::1', 'tcp', 0, 0, 0,
            'refused', 1)`,
    )
  const now = Date.now()
  const first = now - 20 * dayMs
  await addRequestPartitions(plane.db, first)
  for (const days of [30, 20, 19, 9, 2]) await insert(now - days * dayMs)
  const dropped = await dropRequestPartitions(plane.db, now - 7 * dayMs)
  const name = (moment: number) => `edge_requests_${rfc3339(moment).slice(0, 10).replaceAll('-', '_')}`
  assert.deepEqual(dropped, [...[0, 1, 2].map((days) => name(first + days * dayMs)), 'edge_requests_default'])
  const { count } = await one<{ count: number }>(
    plane.db,
    sql`select count(*) from edge_requests where node = 'retained'`,
  )
  assert.equal(count, 1)
})

type Statement = Parameters<DbPool['query']>[0]
/** A PreparedQuery, whose statements are its own business elsewhere. */
type Batch = { readonly statements: readonly Statement[] }

/** A pool whose every statement is explained first, as PostgreSQL plans it for any parameters. */
function explaining(pool: DbPool): { db: DbPool; plans: string[] } {
  const plans: string[] = []
  const explain = async ({ text }: Statement) => {
    plans.push(await planOf(pool, { text }, 'generic_plan'))
  }
  const query: DbPool['query'] = async (statement) => {
    await explain(statement)
    return pool.query(statement)
  }
  const connect = async () => {
    const client = await pool.connect()
    return {
      // Statements come in batches, with 'begin' and 'commit' among them; 'rollback' is plain text.
      query: async (batch: string | Batch, ...rest: unknown[]) => {
        if (typeof batch === 'string') return client.query(batch)
        for (const statement of batch.statements) if (!/^(begin|commit)/.test(statement.text)) await explain(statement)
        return Reflect.apply(client.query, client, [batch, ...rest])
      },
      on: () => {},
      off: () => {},
      release: () => client.release(),
    }
  }
  return { db: { ...pool, query, connect } as unknown as DbPool, plans }
}

test('no list, look-up or write reads a whole partition, with any filter', async () => {
  const admin = await plane.newAccount()
  const edge = await newHttpsEdge(admin)
  // Into every partition, the default one too: an empty one is read as a whole, which costs nothing. Yesterday's is there when
  // the process was started before midnight.
  const days = [-40, -1, 0, 1, 2].map((day) => uuidAt(Date.now() + day * dayMs).slice(0, 13))
  await run(
    plane.db,
    sql`insert into edge_requests (account_id, id, created_at, node, edge_kind, edge_id, route_id, source_ip, protocol,
          duration_ms, bytes_in, bytes_out, outcome, generation)
        select a.id, overlay(gen_random_uuid()::text placing day from 1 for 13)::uuid, now(), 'filler', 'https',
          gen_random_uuid(), gen_random_uuid(), ('10.0.0.0'::inet + n), 'h2', 0, 0, 0, 'refused', 1
        from generate_series(1, 50) n, (select gen_random_uuid() as id from generate_series(1, 50)) a,
          unnest(${days}::text[]) day`,
  )
  await run(
    plane.db,
    sql`insert into edge_request_counts (account_id, hour, node)
        select gen_random_uuid(), now() - n * interval '1 hour', 'filler' from generate_series(1, 5000) n`,
  )
  await run(
    plane.db,
    sql`insert into edges (account_id, id, kind)
        select a.id, gen_random_uuid(), 'https' from (select id from accounts limit 1) a, generate_series(1, 20000)`,
  )
  await run(plane.db, sql`analyze`)
  const { db, plans } = explaining(plane.db)
  const caller = { accountId: toUuid(admin.accountId as `ac_${string}`) } as Caller
  const filters: Static<typeof RequestQuery>[] = [
    {},
    { before_id: newUuid() },
    { edge_id: newId('edghts') },
    { route_id: newId('edghtsrt') },
    { outcome: 'failed' },
    { source_ip: '10.0.0.0/30' },
    { status_class: '5xx' },
    { since: rfc3339(Date.now() - dayMs), until: rfc3339(Date.now()) },
  ]
  for (const query of filters) {
    await listRequests(db, caller, query)
    await countDroppedRequests(db, caller, query)
  }
  await findRequest(db, caller, newUuid())
  const batch = { node: 'edge-1', batch: newUuid(), requests: [keptRequest(admin, edge)], dropped: [] }
  assert.equal((await keepRequests(db, batch, 50)).kept, 1)
  assert.equal(plans.length, filters.length * 2 + 1 + 3)
  for (const plan of plans) assert.doesNotMatch(plan, /Seq Scan on (edge_requests|edge_request_counts|edges)/, plan)
})
