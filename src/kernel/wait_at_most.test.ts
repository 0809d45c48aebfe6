import assert from 'node:assert/strict'
import { test } from 'node:test'
import { waitAtMost } from './wait_at_most.ts'

const soon = () => new Promise<void>((resolve) => setImmediate(resolve))
const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length

test('work that ends or fails leaves no timer behind, which would hold up the end of the process', async () => {
  const before = timers()
  const work = waitAtMost(600_000, soon())
  assert.equal(timers(), before + 1)
  await work
  assert.equal(timers(), before)
  await assert.rejects(() => waitAtMost(600_000, Promise.reject(new Error('no'))), /no/)
  assert.equal(timers(), before)
})

test('work that does not end is waited for as long as it says', async () => {
  await waitAtMost(1, new Promise(() => {}))
})
