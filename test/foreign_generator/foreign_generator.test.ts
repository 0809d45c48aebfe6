import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { nothingWasADefect } from '../harness/defects.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { sized } from '../harness/thorough.ts'
import { callEverything } from './requests.ts'

const plane = await sharedControlPlane({ after })

test('what a generator from elsewhere makes of openapi.json, and what is near it, gets an answer that the document describes', async (t) => {
  for (let seed = 1; seed <= sized(1, 20); seed++) {
    const { requests, statuses, faults } = await callEverything(await plane.newAccount(), seed)
    assert.deepEqual(faults, [])
    // Otherwise the generator, not the service, would be what the test shows.
    const succeeded = [200, 201, 204].reduce((sum, status) => sum + (statuses.get(status) ?? 0), 0)
    assert.ok(succeeded > requests / 10 && Number(statuses.get(400)) > requests / 10, JSON.stringify([...statuses]))
    t.diagnostic(`${requests} requests: ${JSON.stringify([...statuses])}`)
  }
})

nothingWasADefect(plane)
