import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clockFault, clockOffset } from './clock.ts'

test('a clock that was read during the question agrees with ours, and any other is ahead or behind', () => {
  assert.equal(clockOffset(1_000, 1_005, 1_010), 0)
  assert.equal(clockOffset(1_000, 400, 1_010), 600)
  assert.equal(clockOffset(1_000, 1_510, 1_010), -500)
})

test('a clock that is far off is named with the direction', () => {
  assert.equal(clockFault(29_000, 'NATS'), undefined)
  assert.equal(clockFault(3_600_400, 'NATS'), "this machine's clock is 3600 s ahead of that of NATS")
  assert.equal(clockFault(-3_600_400, 'NATS'), "this machine's clock is 3600 s behind that of NATS")
})
