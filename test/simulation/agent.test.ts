// Histories of one node, told by hand: the real agent on a simulated machine.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLiveSet } from '../../src/distribution/live_set.ts'
import type { EdgeRecord } from '../../src/distribution/records.ts'
import { createSigner, newSigningKey, trustedKeys } from '../../src/distribution/signature.ts'
import { createChance } from './chance.ts'
import { createNats } from './nats.ts'
import { createNode } from './node.ts'
import { createPostgres, type Thing } from './postgres.ts'
import { createScheduler } from './scheduler.ts'
import { createAccounts } from './things.ts'

const { publicKey, privateKey } = newSigningKey()
const keys = trustedKeys([publicKey])

/** A node that has read an empty bucket, and the first things of an account. */
async function start() {
  const scheduler = createScheduler(createChance(1), false)
  const nats = createNats(scheduler)
  const node = createNode({ scheduler, nats, keys, broken: {} }, { name: 'node', wave: 0 }, () => {})
  const signing = { signer: createSigner(publicKey, privateKey), trusted: keys }
  const postgres = createPostgres(scheduler, signing, { hasMoves: false, waves: 1 })
  createAccounts(scheduler.chance, postgres, 1).change()
  node.start()
  const pass = async (ms: number) => {
    const until = scheduler.now() + ms
    while (await scheduler.step(until));
  }
  await pass(1_000)
  const agent = node.agent()
  assert.ok(agent)
  agent.opened('a bucket', false)
  const live = createLiveSet()
  agent.entry({
    progress: { after: 0, settled: 1, complete: 'a bucket', live: live.digest() },
    read: { bucket: 'a bucket', revision: 1 },
    pending: 0,
  })
  await pass(1_000)
  assert.deepEqual([agent.state().ready, agent.state().applied], [true, 1])
  const recordOf = (kind: string, generation: number): EdgeRecord => {
    const [key, { value }] = [...postgres.things(0)].find(([each]) => each.startsWith(kind)) as [
      EdgeRecord['key'],
      Thing,
    ]
    return { key, generation, value }
  }
  return { node, agent, pass, recordOf }
}

test('while the file of a policy cannot be written, no change that its record stands for counts as applied', async () => {
  const { node, agent, pass, recordOf } = await start()
  node.disk.setSpace('nearly')
  agent.announced({ records: [recordOf('backend', 2)], progress: { after: 1, settled: 2 } })
  await pass(500)
  // It was changed by 4, 5 and 6, which come as one.
  agent.announced({ records: [recordOf('policy', 6)], progress: { after: 2, settled: 7 } })
  await pass(3_000)
  assert.deepEqual([agent.state().unfinished, agent.state().applied], [1, 2])
  agent.announced({ records: [recordOf('backend', 8)], progress: { after: 7, settled: 8 } })
  await pass(3_000)
  assert.equal(agent.state().applied, 2)
  node.disk.setSpace('free')
  await pass(3_000)
  assert.deepEqual([agent.state().unfinished, agent.state().applied], [0, 8])
})

test('what comes after a batch that was not taken in does not count as applied', async () => {
  const { agent, pass, recordOf } = await start()
  const record = recordOf('backend', 2)
  agent.announced({ records: [record], progress: { after: 1, settled: 2, live: 'of something else' } })
  await pass(100)
  assert.equal(agent.state().applied, 1)
  // Sent again, because the bucket does not have it yet.
  agent.announced({ records: [], progress: { after: 1, settled: 1, live: createLiveSet().digest() } })
  agent.announced({ records: [], progress: { after: 2, settled: 3 } })
  await pass(3_000)
  assert.deepEqual([agent.state().applied, agent.state().records], [1, 0])
  // One step begins with the first of them, and the second waits for it.
  agent.announced({ records: [], progress: { after: 2, settled: 3 } })
  agent.announced({ records: [], progress: { after: 3, settled: 4 } })
  agent.opened('a bucket', false)
  await pass(3_000)
  assert.equal(agent.state().applied, 1)
  const live = createLiveSet()
  live.add(record.key, record.generation)
  agent.entry({ record, read: { bucket: 'a bucket', revision: 2 }, pending: 1 })
  const progress = { after: 2, settled: 3, complete: 'a bucket', live: live.digest() }
  agent.entry({ progress, read: { bucket: 'a bucket', revision: 3 }, pending: 0 })
  await pass(3_000)
  assert.deepEqual([agent.state().applied, agent.state().records], [3, 1])
})

test('a digest is compared even when batches without one come with it', async () => {
  const { agent, pass, recordOf } = await start()
  // A step begins with the first of them, and the next one has the other two: what was read before NATS lost power, and what
  // a new publisher sends before it has compared the bucket.
  agent.announced({ records: [], progress: { after: 1, settled: 2 } })
  agent.announced({ records: [], progress: { after: 2, settled: 3, live: 'of what NATS has lost' } })
  agent.announced({ records: [recordOf('backend', 4)], progress: { after: 3, settled: 4 } })
  await pass(3_000)
  assert.deepEqual([agent.state().applied, agent.state().records], [2, 0])
})
