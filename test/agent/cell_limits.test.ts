// Limits with the scope `cell`, from the API to requests at a node.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { transaction } from '../../src/db/transaction.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { writeOutboxOfMany } from '../../src/operations/outbox.ts'
import { defaultCell } from '../../src/operations/placement.ts'
import { startInstallation } from '../harness/edge.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { get, startHttpUpstream } from './http_harness.ts'

const installation = await startInstallation({ after })
const { admin, db } = installation
const upstream = await startHttpUpstream({ after })
const edge = await installation.startEdge()

/** As a process saves it of another node: one process of HAProxy is enough to see what it lets through. */
const reported = (name: string, minutesAgo: number) =>
  run(
    db,
    sql`
    insert into edge_nodes (name, cell_id, version, applied_generation, records, refusals, started_at, last_seen_at)
    select ${name}, cell_id, version, applied_generation, records, refusals, started_at,
      now() - ${minutesAgo} * interval '1 minute'
    from edge_nodes where name = 'edge-1'
    on conflict (name) do update set last_seen_at = excluded.last_seen_at`,
  )

const host = 'cell.example'
const backend = await make(admin, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
const https = await newHttpsEdge(admin, { hostports: [`${host}:443`] })
const counted = async () => (await admin('GET', '/cells')).body.cells[0].counted_nodes

let tries = 0
/** How much the node lets through, by its own word too: one more than that is refused. */
async function shareOf(path: string): Promise<number> {
  const headers = [`X-Try: ${tries++}`]
  for (let passed = 0; ; passed++) {
    const { status, head } = await get(edge, { host, path, headers })
    if (status === 200) continue
    assert.equal(status, 429, head)
    assert.match(head, new RegExp(`ratelimit-policy: "route";q=${passed};`, 'i'))
    return passed
  }
}

test('each node lets its part of the limit through, of as many nodes as may serve', async () => {
  await poll(counted, (nodes) => nodes === 1)
  const route = (match: string, requests: number, scope: string) =>
    make(admin, `${https.uri}/routes?wait=applied`, {
      ...{ match_type: 'path_prefix', match, backend: { backend_id: backend.id } },
      rate_limit: { requests, per_seconds: 3_600, key: 'header:X-Try', scope },
    })
  await route('/cell', 7, 'cell')
  await route('/node', 7, 'node')
  await route('/least', 1, 'cell')
  assert.equal(await shareOf('/cell'), 7)
  const before = (await admin('GET', '/audit_events?limit=1')).body.audit_events[0].id
  await reported('edge-2', 0)
  await poll(counted, (nodes) => nodes === 2)
  await poll(
    () => shareOf('/cell'),
    (share) => share === 3,
  )
  assert.deepEqual([await shareOf('/node'), await shareOf('/least')], [7, 1])
  assert.equal((await admin('GET', '/audit_events?limit=1')).body.audit_events[0].id, before, 'no change of an account')

  // One that is silent may still serve.
  await reported('edge-2', 58)
  await reported('edge-3', 0)
  await poll(counted, (nodes) => nodes === 3)
  await reported('edge-2', 62)
  await poll(counted, (nodes) => nodes === 2)
  await poll(
    () => shareOf('/cell'),
    (share) => share === 3,
  )
})

test('while the number of nodes is not known such a route is shut, and the node, the control plane and the API say so', async () => {
  const account = toUuid(admin.accountId as `ac_${string}`)
  const sendNumber = (isThere: boolean) =>
    transaction(db, async (tx) => {
      await run(
        tx,
        isThere
          ? sql`insert into accounts_with_cell_limits (account_id) values (${account})`
          : sql`delete from accounts_with_cell_limits where account_id = ${account}`,
      )
      await writeOutboxOfMany(tx, defaultCell, [{ accountId: account, key: `cell_nodes.${admin.accountId}` }])
    })
  const status = async () => {
    const { edge_nodes } = (await admin('GET', '/edge_nodes')).body
    return edge_nodes.find(({ name }: { name: string }) => name === 'edge-1').status
  }
  const metric = async (url: string, name: string) =>
    new RegExp(`^${name} (\\d+)$`, 'm').exec(await (await fetch(`${url}/metrics`)).text())?.[1]
  const statusOf = async (path: string) => (await get(edge, { host, path, headers: [`X-Try: ${tries++}`] })).status
  const controlPlane = installation.processes[0]?.origin ?? ''
  assert.equal((await status()).state, 'up')
  // As a control plane that knows of no such limits would.
  await sendNumber(false)
  const { state, code, reason } = await poll(status, (now) => now.state !== 'up')
  assert.deepEqual([state, code], ['degraded', 'limits_shut'])
  assert.match(
    reason,
    /^It does not know how many nodes .* no one through to 2 routes and TCP edges with such a limit\.$/,
  )
  assert.deepEqual(await Promise.all(['/cell', '/least', '/node'].map(statusOf)), [500, 500, 200])
  assert.equal(await metric(edge.statusUrl, 'gatehouse_edge_shut_limits'), '2')
  assert.equal(await metric(controlPlane, 'gatehouse_edge_nodes_shut_limits'), '2')
  const ready = await fetch(`${edge.statusUrl}/readyz`)
  assert.equal(ready.status, 200, 'its other routes are served')
  assert.match(await ready.text(), /2 routes and TCP edges with a limit of it are shut/)
  await sendNumber(true)
  await poll(status, (now) => now.state === 'up')
  assert.equal(await metric(edge.statusUrl, 'gatehouse_edge_shut_limits'), '0')
  assert.equal(await statusOf('/cell'), 200)
})
