import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { sharedControlPlane } from './harness/shared_control_plane.ts'
import { sized } from './harness/thorough.ts'
import { racePolicies, races } from './policy_race/rounds.ts'

const plane = await sharedControlPlane({ after })

const attaching = Object.keys(races).filter((kind) => kind.startsWith('attached'))
test('deleting a policy while it is being attached: one wins, and the other gets a clear error', async () => {
  const { outcomes, faults } = await racePolicies(plane, { kinds: attaching, rounds: sized(80, 200) })
  console.log(outcomes)
  assert.deepEqual(faults.slice(0, 3), [], `${faults.length} faults`)
})

test('a policy can be deleted while its rules are being changed, and neither request fails', async () => {
  const { outcomes, faults } = await racePolicies(plane, {
    kinds: Object.keys(races).filter((kind) => !kind.startsWith('attached')),
    rounds: sized(80, 200),
  })
  console.log(outcomes)
  assert.deepEqual(faults.slice(0, 3), [], `${faults.length} faults`)
})
