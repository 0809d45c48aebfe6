import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from './harness/control_plane.ts'
import { printed, sized } from './harness/thorough.ts'
import { replayDecisions } from './rule_counts/replay.ts'

const plane = await startControlPlane({ after })
const calls = sized(20_000, 1_000_000)

test(`${printed(calls)} replayed calls leave exactly their number of hits with every rule`, async () => {
  const { rules, decisions, lost, faults } = await replayDecisions(plane, calls)
  assert.deepEqual(faults, [])
  assert.equal(lost, 0)
  assert.ok(rules > 20, `${rules} rules and outcomes`)
  assert.ok(decisions > calls, `${decisions} decisions`)
})
