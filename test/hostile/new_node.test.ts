// Row 3 of the review: a new node answered 2,376 requests before the restriction arrived that refuses them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { wholeFile } from '../agent/live_harness.ts'
import { stop } from '../harness/control_plane.ts'
import { sized } from '../harness/thorough.ts'
import { askUntilEnforced, completeBucket, loseBucket, servesWhatIsOpen, startCrowdedInstallation } from './new_node.ts'

const file = wholeFile()
const installation = await startCrowdedInstallation(file, sized(3_000, 6_000))

for (const situation of ['while the bucket is filled again', 'from a complete bucket'] as const) {
  test(`row 3: a node with an empty disk lets nothing through before it has read everything, ${situation}`, async () => {
    await loseBucket(installation)
    if (situation === 'from a complete bucket') await completeBucket(installation, 120)
    const edge = await installation.startEdge({ cutOff: true })
    const { wrong, tcpOpened, counts } = await askUntilEnforced(edge, installation.tcpPort, 120)
    assert.deepEqual([wrong, tcpOpened], [[], 0], JSON.stringify(counts))
    assert.ok((counts[503] ?? 0) > 0, `nothing was asked before it was ready: ${JSON.stringify(counts)}`)
    assert.equal(counts[404], undefined, 'what is not known yet is not said to be absent')
    assert.equal(await servesWhatIsOpen(edge), 200)
    await stop(edge.child)
  })
}
