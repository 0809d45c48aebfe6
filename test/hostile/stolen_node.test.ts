// A node's NATS password must not reach the records of others: NATS sends an answer to any reply subject that is named.
import assert from 'node:assert/strict'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { progressKey } from '../../src/distribution/channels.ts'
import { wholeFile } from '../agent/live_harness.ts'
import { type Installation, startInstallation } from '../harness/edge.ts'
import { newHttpsEdge } from '../harness/fixtures.ts'
import { connectAsControlPlane } from '../harness/nats.ts'
import { poll } from '../harness/poll.ts'
import { connectAs, contentsOf, sharedAccountConf, tryEverything, withSecondNode } from './stolen_node.ts'

const file = wholeFile()

/** A few records, and a bucket that the publisher has called complete and has no more to say about. */
async function startQuiet(authorization: string) {
  const installation: Installation = await startInstallation(file, {}, undefined, startNats({ authorization }))
  await newHttpsEdge(installation.admin, { hostports: ['a.example:443'] })
  const control = await connectAsControlPlane(file, installation.nats)
  const isComplete = (found: Awaited<ReturnType<typeof contentsOf>>) =>
    found?.entries.at(-1)?.key === progressKey && found.entries.at(-1)?.text.includes('complete') === true
  let last = 0
  const before = await poll(
    () => contentsOf(control),
    (found) => {
      const isSame = found?.lastRevision === last
      last = found?.lastRevision ?? 0
      return isSame && isComplete(found)
    },
    { everyMs: 1_000 },
  )
  const keys = before?.entries.map(({ key }) => key) ?? []
  return { installation, control, before, keys }
}

test('with the password of one node, no message with any reply subject changes the bucket or reaches anyone else', async () => {
  const conf = await withSecondNode(await mkdtemp(join(tmpdir(), 'gatehouse-nats-')))
  const { installation, control, before, keys } = await startQuiet(conf)
  const { url } = installation.nats
  const [thief, other] = [await connectAs(file, url, 'edge-1'), await connectAs(file, url, 'edge-2')]
  const heard: string[] = []
  const hear =
    (who: string) =>
    (_: unknown, { subject }: { subject: string }) =>
      void heard.push(`${who} ${subject}`)
  other.subscribe('>', { callback: hear('edge-2') })
  // Everything but the questions that a node may ask: they arrive under the true name of the API, or of the node itself.
  for (const subject of ['$KV.>', 'gatehouse.batches', 'gatehouse.watches', 'gatehouse.wake', 'gatehouse.anything'])
    control.subscribe(subject, { callback: hear('control plane') })
  for (const kind of ['reports', 'requests', 'tail'])
    control.subscribe(`gatehouse.${kind}.edge-2`, { callback: hear('control plane') })
  await Promise.all([other.flush(), control.flush()])

  const sent = await tryEverything(thief, keys)
  assert.ok(sent > 10_000, `only ${sent} combinations`)
  // An answer to the last question: everything before it was handled. The publisher still reads the bucket as it was.
  const kept = await poll(
    () => thief.request('gatehouse.reports.edge-1', reportOf('edge-1'), { timeout: 5_000 }).catch(() => undefined),
    (answer) => answer?.string() === 'kept',
  )
  assert.ok(kept)
  assert.deepEqual(await contentsOf(control), before)
  assert.deepEqual([...new Set(heard)], [])
})

test('control: in one account with the control plane, the same messages destroy the bucket', async () => {
  const { installation, control, before, keys } = await startQuiet(sharedAccountConf)
  const thief = await connectAs(file, installation.nats.url, 'edge-1')
  await tryEverything(thief, keys)
  assert.notDeepEqual(await contentsOf(control), before)
})

const reportOf = (node: string) =>
  JSON.stringify({
    node,
    version: '1',
    startedAt: new Date().toISOString(),
    applied: 0,
    records: 0,
    refusals: [],
    hits: [],
  })
