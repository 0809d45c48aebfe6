// Nodes that are connected and do not take over the answer to the authority.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import type { Nodes } from '../../src/acme/issue.ts'
import { workOnOrder } from '../../src/acme/worker.ts'
import { maybeOne } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { defaultCell } from '../../src/operations/placement.ts'
import { watchNodes } from '../../src/publisher/nodes/nodes.ts'
import { startOrdersByHand } from './by_hand.ts'

/** Port 80 of the nodes that have the answers. */
const port80 = createServer(async ({ url = '', headers: { host = '' } }, response) => {
  const found = isAnswering && (await maybeOne<{ answer: string }>(plane.db, challengeOf(host, url)))
  response.writeHead(found ? 200 : 404).end(found ? found.answer : '')
})
const challengeOf = (host: string, path: string) =>
  sql`select answer from acme_challenges where host = ${host.replace(/:.*/, '')} and token = ${path.replace(/.*\//, '')}`
let isAnswering = true
await once(port80.listen(0, '127.0.0.1'), 'listening')
after(() => port80.close())

const { plane, parts, managed, statusOf } = await startOrdersByHand({ after }, (port80.address() as AddressInfo).port)
const alice = await plane.newAccount()

/** Three nodes that stay live. Those that are stuck have applied nothing. */
function threeNodes(...stuck: string[]): Nodes {
  const { remember, waitFor } = watchNodes(Date.now, () => {})
  const lastSeenAt = Date.now() + 3_600_000
  const rest = {
    cell: defaultCell.name,
    version: '0.2.0',
    startedAt: new Date().toISOString(),
    records: 0,
    refusals: [],
    lastSeenAt,
    live: true,
  }
  remember(
    ['edge-1', 'edge-2', 'edge-3'].map((node) => ({
      ...rest,
      node,
      applied: stuck.includes(node) ? 0 : Number.MAX_SAFE_INTEGER,
    })),
  )
  const cells = new Set([defaultCell.name])
  return { waitFor: (generation, _account, timeoutMs) => waitFor(generation, cells, timeoutMs), committed() {} }
}
const workWith = (nodes: Nodes) =>
  workOnOrder({ ...parts, nodes, settings: { ...parts.settings, dnsOnly: false, dnsHook: '' } })

test('a certificate is issued although one of three nodes is stuck', async () => {
  const { domain } = await managed(alice)
  assert.deepEqual(await workWith(threeNodes('edge-2')), { domain, issued: true })
})

test('with two of three nodes stuck, the authority is not asked, and the error names both', async () => {
  const reserved = await managed(alice)
  assert.equal((await workWith(threeNodes('edge-1', 'edge-3')))?.error?.code, 'nodes')
  const { error_code, msg } = (await statusOf(alice, reserved)).provisioning_job
  assert.equal(error_code, 'nodes')
  assert.match(msg, /2 of 3 edge nodes did not take over the answer to the authority in time: edge-1, edge-3$/)
})

test('a validation that fails while a node is stuck names that node', async () => {
  const reserved = await managed(alice)
  isAnswering = false
  assert.equal((await workWith(threeNodes('edge-2')))?.error?.code, 'unauthorized')
  assert.match(
    (await statusOf(alice, reserved)).provisioning_job.msg,
    /These edge nodes did not have the answer: edge-2$/,
  )
})
