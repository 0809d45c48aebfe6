import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from './harness/control_plane.ts'
import { behindProxy } from './harness/ip.ts'
import { printed, sized } from './harness/thorough.ts'
import { playHistories } from './newly_refused/histories.ts'

const plane = await startControlPlane({ after }, { env: { ...behindProxy, GATEHOUSE_REQUESTS_PER_MINUTE: '100000' } })
const histories = sized(24, 1_000)

test(`${printed(histories)} random histories show the addresses and causes that an oracle finds`, async () => {
  const seed = Date.now() % 1_000_000
  console.log(`seeds ${seed} to ${seed + histories - 1}`)
  const { listed, faults } = await playHistories(plane, seed, histories, 8)
  assert.deepEqual(faults, [])
  assert.ok(listed >= histories / 2, `only ${listed} addresses in ${histories} histories`)
})
