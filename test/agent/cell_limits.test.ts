// Limits with the scope `cell`, from the API to requests at two nodes.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { stop } from '../harness/control_plane.ts'
import { type EdgeProcess, startInstallation } from '../harness/edge.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { get, startHttpUpstream } from './http_harness.ts'

const installation = await startInstallation({ after })
const { admin, db } = installation
const upstream = await startHttpUpstream({ after })
const node = (name: string) =>
  installation.startEdge({
    env: { GATEHOUSE_EDGE_NODE: name, GATEHOUSE_NATS_USER: name, GATEHOUSE_NATS_PASSWORD: name },
  })
const first = await node('edge-1')

const host = 'cell.example'
const backend = await make(admin, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
const https = await newHttpsEdge(admin, { hostports: [`${host}:443`] })
const counted = async () => (await admin('GET', '/cells')).body.cells[0].counted_nodes

let tries = 0
/** How much the node lets through, by its own word: one more than that is refused. */
async function shareOf(edge: EdgeProcess, path: string): Promise<number> {
  const headers = [`X-Try: ${tries++}`]
  for (let passed = 0; ; passed++) {
    const { status, head } = await get(edge, { host, path, headers })
    if (status === 200) continue
    assert.equal(status, 429, head)
    assert.match(head, new RegExp(`ratelimit-policy: "route";q=${passed};`, 'i'))
    return passed
  }
}

test('each node of the cell lets its part of the limit through, as many nodes as there are', async () => {
  await poll(async () => (await counted()) === 1)
  const route = (match: string, requests: number, scope: string) =>
    make(admin, `${https.uri}/routes?wait=applied`, {
      ...{ match_type: 'path_prefix', match, backend: { backend_id: backend.id } },
      rate_limit: { requests, per_seconds: 3_600, key: 'header:X-Try', scope },
    })
  await route('/cell', 7, 'cell')
  await route('/node', 7, 'node')
  await route('/least', 1, 'cell')
  assert.equal(await shareOf(first, '/cell'), 7)
  const second = await node('edge-2')
  await poll(async () => (await counted()) === 2)
  for (const each of [first, second]) {
    await poll(async () => (await shareOf(each, '/cell')) === 3)
    assert.deepEqual([await shareOf(each, '/node'), await shareOf(each, '/least')], [7, 1])
  }
  // It counts as long as it may still serve, and the number is on the disk of those that do.
  await stop(second.child)
  await run(db, sql`update edge_nodes set last_seen_at = last_seen_at - interval '59 minutes' where name = 'edge-2'`)
  const changed = await admin('PATCH', `${https.uri}?wait=applied`, { description: 'later' })
  assert.equal(changed.status, 200)
  assert.deepEqual([await counted(), await shareOf(first, '/cell')], [2, 3])
  await run(db, sql`update edge_nodes set last_seen_at = last_seen_at - interval '2 minutes' where name = 'edge-2'`)
  await poll(async () => (await counted()) === 1, undefined, { withinSeconds: 20 })
  await poll(async () => (await shareOf(first, '/cell')) === 7)
})

test('a change of the number is no change of an account, and waits in no rollout', async () => {
  const before = (await admin('GET', '/audit_events?limit=1')).body.audit_events[0].id
  await run(db, sql`update edge_nodes set last_seen_at = now() where name = 'edge-2'`)
  await poll(async () => (await counted()) === 2, undefined, { withinSeconds: 20 })
  await poll(async () => (await shareOf(first, '/cell')) === 3)
  assert.equal((await admin('GET', '/audit_events?limit=1')).body.audit_events[0].id, before)
})
