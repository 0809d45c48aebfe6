// An attacker who writes to NATS must not open anything, neither on nodes that run nor on those that start with an empty disk.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultChannels, type Progress, progressKey } from '../../src/distribution/channels.ts'
import { createLiveSet } from '../../src/distribution/live_set.ts'
import type { RecordKey, RouteRecord } from '../../src/distribution/records.ts'
import { digestOf, seal } from '../../src/distribution/signature.ts'
import { activeSigner } from '../../src/publisher/signing_keys.ts'
import { statusOf as statusOfNode, wholeFile } from '../agent/live_harness.ts'
import { secretsBox, stop } from '../harness/control_plane.ts'
import { make } from '../harness/fixtures.ts'
import { connectAsControlPlane } from '../harness/nats.ts'
import { poll } from '../harness/poll.ts'
import { askNewNode, damages, startGuarded, statusAt } from './tampered_bucket.ts'

const file = wholeFile()
const installation = await startGuarded(file)
const { node, admin } = installation

test('a running node applies nothing of a batch when a record was withheld that the control plane had signed for', async () => {
  const signer = await activeSigner(installation.db, secretsBox)
  const control = await connectAsControlPlane(file, installation.nats)
  const key = installation.keyOf('deleted') as RecordKey
  const sealed = (await installation.bucket.get(key))?.json<{ payload: string }>().payload ?? ''
  const { value, generation } = JSON.parse(sealed) as { value: RouteRecord; generation: number }
  const applied = async (): Promise<number> => (await admin('GET', '/edge_nodes')).body.edge_nodes[0].applied_generation
  // From where the node is now: it may still be applying changes from before.
  const announce = async (progress: Partial<Progress>) => {
    const after = await applied()
    const settled = Math.max(after, generation) + 1
    const opened = seal({ key, generation: settled, value: { ...value, policies: null } }, signer)
    const said = { after, settled, digest: digestOf([opened]), ...progress }
    control.publish(defaultChannels.batches, JSON.stringify({ progress: seal(said, signer), records: [opened] }))
  }
  // Plain messages may be lost, so each is repeated until it has its effect.
  await poll(
    async () => {
      await announce({ live: 'a digest with another record' })
      return statusOfNode(node)
    },
    ({ refusals }) => refusals.some(({ reason }: { reason: string }) => /one is missing or was replaced/.test(reason)),
  )
  assert.equal(await statusAt(node, 'deleted'), 403)
  // Read again from the beginning, it agrees with the control plane, and takes changes as before.
  const { uri } = await make(admin, '/ip_policies', { description: 'after the reread' })
  await poll(
    () => admin('PATCH', `${uri}?wait=applied`, { description: `${Date.now()}` }),
    ({ headers }) => headers.get('service-applied') === '1/1',
  )
  // Control: without a digest, as from an older publisher, the batch is taken for whole.
  await poll(
    async () => {
      await announce({ after: 0 })
      return statusAt(node, 'deleted')
    },
    (status) => status === 200,
  )
})

test('with records replaced, removed and set back in the bucket, a new node never lets a refused address in, and starts', async () => {
  // The control plane must hear of it from the new node.
  await stop(node.child)
  for (const damage of damages) await installation.harm(damage)
  const { counts, refused, open } = await askNewNode(installation, damages)
  assert.equal(counts[200], undefined, JSON.stringify(counts))
  assert.ok((counts[503] ?? 0) > 0, JSON.stringify(counts))
  assert.deepEqual([refused, open], [[...damages].sort(), 200], JSON.stringify(counts))
})

test('the digest that the control plane signs is that of the live records in the bucket', async () => {
  const { uri } = await make(admin, '/ip_policies', { description: 'deleted again' })
  await make(admin, '/ip_policies', { description: 'stays' })
  assert.equal((await admin('DELETE', uri)).status, 204)
  const said = async () => {
    const set = createLiveSet()
    let progress: Progress | undefined
    for await (const key of await installation.bucket.keys()) {
      const entry = await installation.bucket.get(key)
      const payload = JSON.parse(entry?.json<{ payload: string }>().payload ?? '{}')
      if (key === progressKey) progress = payload
      else if (payload.value !== null) set.add(key, payload.generation)
    }
    return { said: progress?.live, found: set.digest() }
  }
  await poll(said, ({ said, found }) => said === found)
})

test('unsigned entries are removed from the bucket, do not count as resources, and do not keep new nodes from starting', async () => {
  await installation.litter(150)
  const [serve] = installation.processes
  assert.ok(serve)
  await installation.startProcess()
  await stop(serve.child, 'SIGKILL')
  const { counts, refused, open } = await askNewNode(installation, ['garbage'])
  assert.equal(counts[200], undefined, JSON.stringify(counts))
  assert.deepEqual([refused, open], [['garbage'], 200])
  await poll(
    async () => (await Array.fromAsync(await installation.bucket.keys('tcp.*'))).length,
    (left) => left === 0,
  )
})
