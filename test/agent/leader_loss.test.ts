import assert from 'node:assert/strict'
import { test } from 'node:test'
import { wholeFile } from './live_harness.ts'
import { loseLeaders } from './lose_leaders.ts'

// An election takes five seconds and more, and changes must not wait for it.
test('changes take effect while the bucket has no leader, and none is lost', async (t) => {
  const { latencies, unseen, wrong } = await loseLeaders(wholeFile(), 60, (line) => t.diagnostic(line))
  assert.ok(unseen > 0)
  assert.equal(wrong, 0)
  const worst = Math.max(...latencies)
  assert.ok(worst < 4_000, `the slowest change took ${worst.toFixed(0)} ms`)
})
