import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from '../harness/control_plane.ts'
import { sized } from '../harness/thorough.ts'
import { revertAtRandom } from './random.ts'

test('while several people change things, undoing a change puts back its own part or says what is in the way', async () => {
  const plane = await startControlPlane({ after }, { processes: 2 })
  const counts = await revertAtRandom(plane, sized(6, 40))
  console.log(counts)
  assert.ok(counts.undone > 0)
})
