import assert from 'node:assert/strict'
import { test } from 'node:test'
import { edgeRequest } from '../../../test/harness/edge_requests.ts'
import { maxBatchRequests, readBatch } from '../../distribution/request_batch.ts'
import { newId } from '../../kernel/ids.ts'
import { createKept } from './kept.ts'

const account = () => ({ accountId: newId('ac') })
const edge = { id: newId('edghts') }
const maxBytes = 1024 * 1024
const dayMs = 24 * 60 * 60 * 1_000
const read = (batch: unknown) =>
  readBatch(JSON.stringify(batch), 'gatehouse.requests.edge-1', Date.now(), Date.now() - dayMs)

test('allowed requests and those of no account are let go, and the rest comes in batches that are good', () => {
  const kept = createKept('edge-1')
  const one = account()
  kept.add(edgeRequest(one, edge, { outcome: 'allowed', reason: null }), 0)
  kept.add(edgeRequest(one, edge, { account: null }), 0)
  assert.equal(kept.take(maxBytes), undefined)
  const sent = ['refused', 'warned', 'limited', 'failed'].map((outcome) =>
    edgeRequest(one, edge, { outcome: outcome as 'warned', reason: null }),
  )
  for (const request of sent) kept.add(request, 0)
  const batch = kept.take(maxBytes)
  assert.deepEqual(batch?.requests, sent)
  assert.deepEqual(read(batch), { batch, refused: 0 })
  assert.equal(kept.take(maxBytes), undefined)
})

test('a flood from one address leaves places to others of the account, and what finds none is counted by the hour', () => {
  const kept = createKept('edge-1')
  const [loud, quiet] = [account(), account()]
  for (let i = 0; i < 1_000; i++) kept.add(edgeRequest(loud, edge), 0)
  const other = edgeRequest(loud, edge, { source: '198.51.100.1' })
  const mine = edgeRequest(quiet, edge)
  kept.add(other, 0)
  kept.add(mine, 0)
  const batch = kept.take(maxBytes)
  assert.equal(batch?.requests.length, 32)
  const ids = batch?.requests.map(({ id }) => id)
  assert.ok(ids?.includes(other.id) && ids.includes(mine.id))
  assert.equal(
    batch?.dropped.reduce((sum, { count }) => sum + count, 0),
    970,
  )
  assert.ok(batch?.dropped.every((each) => each.account === loud.accountId))
  assert.equal(read(batch)?.refused, 0)
  // In the next ten seconds there are places again.
  kept.add(edgeRequest(loud, edge), 10_000)
  assert.equal(kept.take(maxBytes)?.requests.length, 1)
})

test('while the node is cut off memory is bounded, and an account of which nothing waits still gets a place', () => {
  const kept = createKept('edge-1')
  const accounts = Array.from({ length: 60 }, account)
  let now = 0
  for (let round = 0; round < 300; round++, now += 10_000)
    for (const each of accounts)
      for (let i = 0; i < 5; i++) kept.add(edgeRequest(each, edge, { source: `10.0.0.${i}` }), now)
  assert.equal(kept.counts().waiting, 10_000)
  const late = edgeRequest(account(), edge)
  kept.add(late, now)
  assert.equal(kept.counts().waiting, 10_001)
  const first = kept.take(maxBytes)
  assert.equal(first?.requests.length, maxBatchRequests)
  assert.ok(
    first?.requests.some(({ id }) => id === late.id),
    'accounts take turns',
  )
})

test('a batch is no larger than the message that the server takes, and nothing is lost over it', () => {
  const kept = createKept('edge-1')
  const sent = Array.from({ length: 100 }, (_, index) =>
    edgeRequest(account(), edge, { path: `/${'漢'.repeat(300)}`, source: `10.0.0.${index}` }),
  )
  for (const request of sent) kept.add(request, 0)
  const flooding = account()
  for (let i = 0; i < 100; i++) kept.add(edgeRequest(flooding, edge), 0)
  const small = 16 * 1024
  const whole = kept.take(maxBytes)
  assert.ok(whole && Buffer.byteLength(JSON.stringify(whole)) > small)
  // The server was restarted with a lower limit before it was delivered.
  kept.giveBack(whole)
  assert.equal(kept.counts().waiting, 130)
  const arrived: string[] = []
  let dropped = 0
  for (let batch = kept.take(small); batch; batch = kept.take(small)) {
    assert.ok(Buffer.byteLength(JSON.stringify(batch)) <= small)
    arrived.push(...batch.requests.map(({ id }) => id))
    dropped += batch.dropped.reduce((sum, { count }) => sum + count, 0)
  }
  assert.equal(new Set(arrived).size, arrived.length)
  assert.deepEqual([arrived.length, dropped], [130, 70])
  assert.ok(sent.every(({ id }) => arrived.includes(id)))
})

test('a request that fits into no message is counted as dropped, and does not keep others from being sent', () => {
  const kept = createKept('edge-1')
  const [large, small] = [account(), account()]
  kept.add(edgeRequest(large, edge, { path: `/${'x'.repeat(2_000)}` }), 0)
  kept.add(edgeRequest(small, edge), 0)
  const first = kept.take(2_000)
  assert.deepEqual(
    first?.requests.map((request) => request.account),
    [small.accountId],
  )
  const second = kept.take(2_000)
  assert.deepEqual([second?.requests.length, second?.dropped[0]?.account], [0, large.accountId])
  assert.deepEqual([kept.take(2_000), kept.counts()], [undefined, { waiting: 0, dropped: 1 }])
})
