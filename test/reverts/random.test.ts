import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from '../harness/control_plane.ts'
import { sized } from '../harness/thorough.ts'
import { revertAtRandom, undoingOthers, withoutSecondHalf } from './random.ts'

// `npm run drill -- reverts` has many more.
test('while four people change things and processes are killed, undoing a change puts back its own part or says what is in the way', async () => {
  const plane = await startControlPlane({ after }, { processes: 2 })
  const counts = await revertAtRandom(plane, { sequences: sized(24, 200), kills: sized(3, 20), lanes: 2 })
  console.log(counts)
  assert.ok(counts.exact > 0 && counts.undone > 0 && counts.killed > 0 && counts.looks > 0)
})

test('half of a change set is noticed, and so is undoing what others did', async () => {
  const [halves, others] = [
    await startControlPlane({ after }, { prepare: withoutSecondHalf }),
    await startControlPlane({ after }, { prepare: undoingOthers }),
  ]
  await assert.rejects(revertAtRandom(halves, { sequences: 100, kills: 0 }), /made or undone by half/)
  await assert.rejects(revertAtRandom(others, { sequences: 100, kills: 0 }), /undone:|back after|actual - expected/)
})
